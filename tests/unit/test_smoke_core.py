from tests.fakes import delta
from tests.fakes.world import fake_world
from turnstile.core.decision import Conflict, Ratified
from turnstile.core.head import TableHead, new_head_row
from turnstile.core.floor import raise_floor
from turnstile.core.plan import Insert, new_row
from turnstile.services.ratify import CommitRequest, Ratifier

T = "11111111-1111-4111-8111-111111111111"


def test_a_table_takes_versions_in_order_and_answers_replays_and_conflicts() -> None:
    w = fake_world()
    clock, refs, sp = w.clock, w.refs, w.space
    r = Ratifier(w)
    refs.write(
        Insert(
            new_head_row(
                key=sp.table(T),
                table_id=T,
                catalog="main",
                name="main.default.t",
                location="file:///l/t",
                metadata="m",
                version=0,
                ict=1,
                row_hwm=None,
                created=1,
                managed=True,
            ),
            (new_row("I2"),),
        )
    )
    a = r.commit(CommitRequest(T, 1, content=delta.append("a", clock.now_ms())))
    assert isinstance(a, Ratified) and a.version == 1 and not a.replayed
    assert isinstance(r.commit(CommitRequest(T, 1, content=delta.append("a", clock.now_ms()))), Ratified)
    c = r.commit(CommitRequest(T, 1, content=delta.append("b", clock.now_ms())))
    assert isinstance(c, Conflict) and c.winners[0].entry.txn == "a"
    t = r.commit(CommitRequest(T, None, base=0, content=delta.append("b", 5)))
    assert isinstance(t, Ratified) and t.version == 2
    head = TableHead.from_row(refs.read(sp.table(T)))
    refs.write(raise_floor(head, 2, idle=True))
    print(refs.rows)

"""Eight writers at once: exactly one winner, no ticket lost, and no clash mistaken for a refusal
(I1, I2)."""

from __future__ import annotations

from tests.support.store.backends import Backend
from tests.support.store.rows import change, fresh_key, head_row, stored
from tests.support.threads import together
from turnstile.store.core.writes import Append, AtMost, Equals, Include, Lacks, Present, Set, SetSum
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected


def test_i2_of_eight_writers_of_one_version_exactly_one_wins_and_the_others_see_the_winner(
    backend: Backend, key: str
) -> None:
    refs = backend.refs()
    stored(refs, head_row(key))
    for version in range(6, 16):

        def propose(writer: int, version: int = version) -> Accepted | Rejected:
            entry = b"%d/%d" % (version, writer)
            actions = Set(("latest",), version), Append(("tail",), (entry,))
            return refs.write(change(key, *actions, when=(Equals(("latest",), version - 1),)))

        answers = together(propose)
        (winner,) = [writer for writer, answer in enumerate(answers) if isinstance(answer, Accepted)]
        for answer in answers:
            assert answer.row is not None
            assert answer.row["latest"] == version
            assert answer.row["tail"][-1] == b"%d/%d" % (version, winner)


def test_i1_no_ticket_is_lost_or_given_twice(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, bytes=0))

    def draw(writer: int) -> list[int]:
        mine = []
        for turn in range(10):
            txn = f"{writer}-{turn}"
            answer = refs.write(
                change(
                    key,
                    SetSum(("latest",), ("latest",), 1),
                    SetSum(("bytes",), ("bytes",), 3),
                    Append(("tail",), (txn.encode(),)),
                    Include(("ids",), frozenset({txn})),
                    when=(AtMost(("epoch",), 5), Lacks(("ids",), txn), Equals(("state",), "active")),
                )
            )
            assert isinstance(answer, Accepted)
            assert answer.row is not None
            assert answer.row["tail"][-1] == txn.encode()
            mine.append(answer.row["latest"])
        return mine

    versions = [version for mine in together(draw) for version in mine]
    assert sorted(versions) == list(range(6, 86))
    row = refs.read(key)
    assert row is not None
    assert (row["latest"], row["bytes"], len(row["tail"]), len(row["ids"])) == (85, 240, 80, 80)


def test_i8_racing_transactions_over_the_same_rows_lose_no_update(backend: Backend) -> None:
    refs = backend.refs()
    keys = [fresh_key() for _ in range(3)]
    for key in keys:
        stored(refs, head_row(key))

    def step(writer: int) -> list[AllAccepted | SomeRejected]:
        both = keys[writer % 3], keys[(writer + 1) % 3]
        return [
            refs.transact(
                [change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),)) for key in both],
                f"{keys[0]}-{writer}-{turn}",
            )
            for turn in range(5)
        ]

    answers = [answer for mine in together(step) for answer in mine]
    assert answers == [AllAccepted()] * 40
    assert sum(row["latest"] - 5 for row in refs.read_many(keys).values()) == 80


def test_i8_of_racing_transactions_that_exclude_each_other_exactly_one_is_applied(backend: Backend) -> None:
    refs = backend.refs()
    for _ in range(5):
        keys = [fresh_key(), fresh_key()]
        for key in keys:
            stored(refs, head_row(key))

        def group(writer: int, keys: list[str] = keys) -> AllAccepted | SomeRejected:
            order = keys if writer % 2 else keys[::-1]
            writes = [
                change(key, Set(("latest",), 6), Set(("reason",), f"{writer}"), when=(Equals(("latest",), 5),))
                for key in order
            ]
            return refs.transact(writes, f"{keys[0]}-{writer}")

        answers = together(group)
        (winner,) = [writer for writer, answer in enumerate(answers) if isinstance(answer, AllAccepted)]
        assert [row["reason"] for row in refs.read_many(keys).values()] == [f"{winner}"] * 2

"""A restore on real tables and real files: what the fakes promise of recovery, DynamoDB's API keeps
(I1 to I4)."""

from __future__ import annotations

from tests.support.catalog import MAIN, create, head_of
from tests.support.fakes import delta
from tests.support.store.realm import StoredRealm
from turnstile.delta.core.decide import Ratified, Refused
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.recover import mark_all_restored
from turnstile.delta.repair import Choice, Repairer
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.writes import Clause, Insert, Present


def test_i1_i2_i3_a_table_restored_behind_its_own_log_takes_it_up_again(stored_realm: StoredRealm) -> None:
    services = stored_realm.services()
    world = services.world
    table_id = create(services)
    ratifier = Ratifier(world)
    publisher = Publisher(world)

    def commit(version: int, *more: dict[str, object]) -> CommitRequest:
        stamp = max(world.clock.now_ms(), head_of(world, table_id).last_ict + 1)
        content = delta.lines(delta.info(f"t{version}", stamp), *more, delta.add(f"{version}.parquet"))
        request = CommitRequest(table_id, version, content=content)
        assert isinstance(ratifier.commit(request), Ratified)
        return request

    for version in (1, 2):
        commit(version)
    backup = world.refs.read(world.space.table(table_id))
    assert backup is not None
    requests = {
        version: commit(version, {"txn": {"appId": f"app-{version}", "version": 1}}) for version in range(3, 44)
    }
    requests[44] = commit(44, delta.metadata(note="late"))
    publisher.publish(table_id)
    lost = head_of(world, table_id)
    world.refs.write(Insert(backup, (Clause("there", "I2", "a backup is restored", Present(("key",))),)))

    repairer = Repairer(world, publisher)
    assert repairer.diagnose(table_id).finding == "behind"
    done, found = repairer.repair(table_id)
    assert (done.count, done.adopted, done.problem, found.finding) == (2, 42, None, "healthy")
    head = head_of(world, table_id)
    for member in ("latest", "floor", "state", "last_ict", "epoch", "metadata", "tail_from", "ids", "bytes", "pending"):
        assert getattr(head, member) == getattr(lost, member), member
    for version in (3, 20, 44):
        again = ratifier.commit(requests[version])
        assert isinstance(again, Ratified) and again.replayed and again.version == version
    assert isinstance(ratifier.commit(commit(45)), Ratified)
    Sweeper(world, publisher).sweep(until_ms=10**15, each_ms=10**15, workers=1)
    assert services.reader.resolve(*MAIN, "t").table_id == table_id
    assert head_of(world, table_id).floor == 45


def test_i1_i2_the_choice_of_the_log_works_on_real_tables_too(stored_realm: StoredRealm) -> None:
    """Commits went on after the restore, so HEAD and log hold different versions 3 and 4."""
    services = stored_realm.services()
    world = services.world
    table_id = create(services)
    ratifier = Ratifier(world)
    publisher = Publisher(world)

    def commit(name: str, *more: dict[str, object]) -> None:
        head = head_of(world, table_id)
        stamp = max(world.clock.now_ms(), head.last_ict + 1)
        content = delta.lines(delta.info(name, stamp), *more, delta.add(f"{name}.parquet"))
        response = ratifier.commit(CommitRequest(table_id, head.latest + 1, content=content))
        assert isinstance(response, Ratified) and not response.replayed

    for version in (1, 2):
        commit(f"t{version}")
    publisher.publish(table_id)
    backup = world.refs.read(world.space.table(table_id))
    assert backup is not None
    for version in range(3, 9):
        commit(f"t{version}", delta.metadata(note=f"v{version}"))
    publisher.publish(table_id)
    lost = head_of(world, table_id)
    world.refs.write(Insert(backup, (Clause("there", "I2", "a backup is restored", Present(("key",))),)))
    for name in ("since-3", "since-4"):
        commit(name, delta.metadata(note=name), {"txn": {"appId": name, "version": 1}})

    repairer = Repairer(world, publisher)
    found = repairer.repair(table_id)[1]
    assert (found.finding, found.state) == ("differs", "stuck") and found.sides is not None
    done = repairer.adopt(table_id, Choice("log", 3, found.sides.log.digest))
    assert (done.published.adopted, done.diagnosis.finding, len(done.set_aside)) == (6, "healthy", 2)
    head = head_of(world, table_id)
    for member in ("latest", "floor", "state", "last_ict", "epoch", "metadata", "tail_from", "ids", "bytes", "pending"):
        assert getattr(head, member) == getattr(lost, member), member
    assert set(head.apps.values()) <= {2}
    commit("t9")


def test_i1_i10_after_a_restore_of_all_rows_no_real_table_takes_a_commit_before_its_sweep(
    stored_realm: StoredRealm,
) -> None:
    services = stored_realm.services()
    world = services.world
    table_id = create(services)
    assert mark_all_restored(world) == 1 == mark_all_restored(world)
    request = CommitRequest(table_id, 1, content=delta.append("early", world.clock.now_ms()))
    assert isinstance(Ratifier(world).commit(request), Refused)
    Sweeper(world, Publisher(world)).sweep(until_ms=10**15, each_ms=10**15, workers=1)
    assert isinstance(Ratifier(world).commit(request), Ratified)

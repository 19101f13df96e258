"""Writers send commits with good and bad rows while the expectation of their table comes and goes,
by processes with old caches that lose answers or die at any write (I29). No version has a bad row
while the table expects good ones, and no good commit is refused for its rows."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from tests.support.catalog import LAKE, create, fakes, fresh, head_of
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, before_write, stop_races
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.delta import prepare
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.prepare import NewRows, Preparer
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.transactions.groups import GroupRatified
from turnstile.expectations.at_commit import CommitCheck
from turnstile.store.core.errors import ExpectationBroken, OutcomeUnknown, StorageFault
from turnstile.store.core.names import published_path, staged_file, staged_path
from turnstile.store.ports import World

SEEDS = [pytest.param(seed, marks=pytest.mark.slow if seed >= 10 else ()) for seed in range(200)]
EXPECTED: dict[str, dict[str, str]] = {
    "": {},
    "positive": {"turnstile.expect.e": "id >= 0", "turnstile.expect.e.on": "commit"},
    "small": {"turnstile.expect.e": "id < 5", "turnstile.expect.e.on": "commit"},
}
"""A bad row breaks the expectation ``positive`` alone."""
Plant = Callable[[pytest.MonkeyPatch], None]


class BadRowShown(AssertionError):
    """A version has a bad row although the table expects good ones."""


class Lake:
    """A table, and processes that write it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        catalog = fresh()
        self.world: FakeWorld = fakes(catalog)
        self.table_id = create(catalog, "t")
        self.other_id = create(catalog, "u")
        self.processes = [self.process() for _ in range(3)]
        self.count = 0
        self.seen = {"good": 0, "bad": 0, "refused": 0}

    def process(self, world: World | None = None) -> Services:
        return Services(cast("Any", world or self.world), Settings(lake_root=LAKE))

    def services(self) -> Services:
        """A process with caches of before; or a new one that fails at a write."""
        if self.random.random() < 0.7:
            return self.random.choice(self.processes)
        how = self.random.choice((*CRASHES, *LOSSES))
        return self.process(Faulty(self.world, self.random.randint(1, 3), how).world)

    # -- commits ------------------------------------------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        self.count += 1
        expected = EXPECTED[self.random.choice(("", "positive", "positive", "small"))]
        action = delta.metadata(**expected, **{"test.change": str(self.count)})
        action["metaData"]["id"] = "m"
        return action

    def add(self, *, good: bool) -> dict[str, Any]:
        self.count += 1
        bounds = {"minValues": {"id": 1 if good else -1}, "maxValues": {"id": 2}}
        return delta.add(f"f{self.count}", stats=json.dumps({"numRecords": 2, "nullCount": {"id": 0}, **bounds}))

    def request(self, services: Services, table_id: str, *actions: dict[str, Any]) -> CommitRequest:
        """A commit for the next version, as far as this process knows; or a ticket."""
        head = head_of(self.world, table_id)
        stamp = max(self.world.clock.now_ms(), head.last_ict + 1)
        is_ticket = self.random.random() < 0.4 and all("add" in action for action in actions)
        content = delta.lines(delta.info(f"t-{self.count}-{stamp}", stamp, isBlindAppend=is_ticket), *actions)
        if is_ticket:
            return CommitRequest(table_id, None, base=head.latest, content=content)
        version = head.latest + 1
        if self.random.random() < 0.5:
            return CommitRequest(table_id, version, base=head.latest, content=content)
        staged = staged_file(version, services.world.ids.uuid())
        self.world.storages.open(head.location).put_if_absent(staged_path(staged), content)
        return CommitRequest(table_id, version, base=head.latest, staged=staged, size=len(content), modified_ms=stamp)

    def send(self, *actions: dict[str, Any], good: bool) -> None:
        services = self.services()
        request = self.request(services, self.table_id, *actions)
        if self.random.random() < 0.4:
            before_write(self.world, self.random.randint(1, 2), self.change_expectation)
        try:
            for _ in range(self.random.choice((1, 1, 2))):  # a client that sends it again
                self.commit(services, request)
        except ExpectationBroken:
            assert not good, "a commit with good rows is not refused for its rows"
            self.seen["refused"] += 1
        except (Crash, OutcomeUnknown, StorageFault):
            pass
        finally:
            stop_races(self.world)

    def commit(self, services: Services, request: CommitRequest) -> None:
        if self.random.random() < 0.3:
            other = self.request(services, self.other_id, self.add(good=True))
            group = GroupRequest(services.world.ids.uuid(), (request, other))
            assert services.groups.commit(group) is not None
        else:
            assert isinstance(services.ratifier.commit(request), Ratified | Conflict | Refused)

    def change_expectation(self) -> None:
        """Another process sets or removes the expectation."""
        services = self.process()
        request = self.request(services, self.table_id, self.metadata())
        answer = services.ratifier.commit(request)
        assert isinstance(answer, Ratified | GroupRatified)

    def step(self) -> None:
        good = self.random.random() < 0.5
        match self.random.randrange(5):
            case 0:
                self.change_expectation()
            case 1:  # a statement that changes the table and adds rows
                self.send(self.metadata(), self.add(good=good), good=good)
            case _:
                self.send(self.add(good=good), good=good)

    # -- checks -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Reads the published log: each version by the expectation that is in force with it."""
        services = self.process()
        services.publisher.publish(self.table_id)
        head = head_of(self.world, self.table_id)
        assert head.floor == head.latest
        storage = self.world.storages.open(head.location)
        expects = False
        for version in range(head.latest + 1):
            file = storage.read(published_path(version), 1_000_000)
            assert file is not None
            actions = [json.loads(line) for line in file[0].splitlines()]
            for action in actions:
                if "metaData" in action:
                    expects = action["metaData"]["configuration"].get("turnstile.expect.e") == "id >= 0"
            for action in actions:
                if "add" in action:
                    is_good = json.loads(action["add"]["stats"])["minValues"]["id"] >= 0
                    self.seen["good" if is_good else "bad"] += 1
                    if expects and not is_good:
                        raise BadRowShown(f"version {version}")


def run(seed: int) -> Lake:
    lake = Lake(seed)
    for _ in range(25):
        lake.step()
    lake.check()
    return lake


@pytest.mark.parametrize("seed", SEEDS)
def test_i29_no_version_has_a_row_that_its_table_does_not_expect(seed: int) -> None:
    run(seed)


def test_i29_the_runs_show_rows_and_refuse_them() -> None:
    lakes = [run(seed) for seed in range(200, 206)]
    assert all(sum(lake.seen[kind] for lake in lakes) > 10 for kind in ("good", "bad", "refused"))


def _without_assertion(patch: pytest.MonkeyPatch) -> None:
    """The write does not assert the metadata that the check used."""
    for name in ("named_change", "ticket_change"):
        change = getattr(prepare, name)

        def unasserted(key: str, proposal: Any, *args: Any, _change: Any = change, **named: Any) -> Any:
            return _change(key, msgspec.structs.replace(proposal, asserts=None), *args, **named)

        patch.setattr(prepare, name, unasserted)


def _cached_by_table(patch: pytest.MonkeyPatch) -> None:
    """The expectations of a table are those that the process met first."""
    refusal = CommitCheck.refusal
    patch.setattr(
        CommitCheck, "refusal", lambda self, rows: refusal(self, msgspec.structs.replace(rows, metadata=rows.location))
    )


def _checked_once(patch: pytest.MonkeyPatch) -> None:
    """A commit that meets other metadata at its write is not checked again."""
    rows_refusal = Preparer._rows_refusal
    seen = set[int]()

    def first_time(self: Preparer, request: CommitRequest, *args: Any) -> Any:
        if id(request) in seen:
            return None
        seen.add(id(request))
        return rows_refusal(self, request, *args)

    patch.setattr(Preparer, "_rows_refusal", first_time)


def _changes_of_metadata_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A commit that changes the table is not checked by its own expectations."""
    refusal = CommitCheck.refusal

    def of_stored(self: CommitCheck, rows: NewRows) -> Any:
        return refusal(self, rows) if rows.metadata else None

    patch.setattr(CommitCheck, "refusal", of_stored)


@pytest.mark.parametrize("plant", [_without_assertion, _cached_by_table, _checked_once, _changes_of_metadata_unchecked])
def test_i29_a_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with contextlib.suppress(BadRowShown):
        for seed in range(60):
            run(seed)
        pytest.fail("no run shows a bad row")

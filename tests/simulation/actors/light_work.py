"""Actors of light work: engines that replace files, workers that write checkpoints, and an auditor
of the checkpoints (I15)."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.simulation.actors.writers import Writer
from tests.simulation.auditors.record import History, Violation
from tests.simulation.engine.plans import HOUR, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeClock, FakeStorages
from turnstile.delta.core.actions import Add
from turnstile.delta.core.head import TableHead
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.maintenance.state import open_state
from turnstile.maintenance.work import Maintainer
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import LOG, published_path


class Replacer(Writer):
    """An engine whose commits add a file, and remove, add again or describe anew some existing
    ones."""

    def _build(self, head: TableHead, txn: str, attempt: str, stamp: int) -> CommitRequest | None:
        facts = self._state.auditor.tables[self._table].facts
        files = sorted(model(fact.content for _, fact in sorted(facts.items()))[0])
        actions = [delta.info(txn, stamp, attempt, readVersion=head.latest), delta.add(f"{txn}.{attempt}", 1)]
        actions.append({"txn": {"appId": self._name, "version": stamp}})
        chosen = self._rng.sample(files, min(len(files), self._rng.randint(0, 3)))
        for number, path in enumerate(chosen):
            actions.append(delta.remove(path) if number else delta.add(path, self._rng.randint(2, 9)))
        if self._rng.random() < 0.3:
            gone = sorted(path for path in self._gone(head.latest) if path not in chosen)
            actions += [delta.add(path, 10) for path in gone[:1]]
        return CommitRequest(self._table, head.latest + 1, content=delta.lines(*actions))

    def _gone(self, latest: int) -> set[str]:
        """Files that were removed."""
        facts = self._state.auditor.tables[self._table].facts
        lines = [json.loads(line) for fact in facts.values() for line in fact.content.splitlines()]
        there = model(fact.content for _, fact in sorted(facts.items()))[0]
        return {line["remove"]["path"] for line in lines if "remove" in line} - there.keys()


class Worker:
    """Light work, again and again; a process that crashes begins anew."""

    def __init__(self, state: State, name: str, table_id: str, rng: random.Random) -> None:
        self._state = state
        self._name = name
        self._table = table_id
        self._rng = rng

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((5, 200, 3 * SECOND, 60 * SECOND, HOUR)))
            try:
                self.work(Process(self._state, self._name))
            except (Crashed, TurnstileError):
                continue

    def work(self, process: Process) -> None:
        """One call."""
        done = Maintainer(world_of(process)).maintain(self._table)
        self._state.auditor.seen[done.outcome] += 1
        self._state.auditor.seen["checkpoint"] += len(done.checkpoints)
        self._state.auditor.seen["compaction"] += len(done.compactions)


def model(contents: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Files and applications after these commits, in the plainest way: the newest action counts."""
    files: dict[str, Any] = {}
    apps: dict[str, Any] = {}
    for content in contents:
        for line in content.splitlines():
            ((name, body),) = json.loads(line).items()
            if name == "add":
                files[body["path"]] = json.loads(body["stats"])["numRecords"]
            elif name == "remove":
                files.pop(body["path"], None)
            elif name == "txn":
                apps[body["appId"]] = body["version"]
    return files, apps


class Judge:
    """Judges each file of light work the moment it comes to be."""

    def __init__(self, state: State, zero: bytes) -> None:
        self._state = state
        self._zero = zero
        state.auditor.light_work.append(self)

    def __call__(self, history: History, path: str, content: bytes) -> None:
        name = path.removeprefix(LOG)
        head = self._state.auditor.true_head(self._state.refs.rows[self._state.space.table(history.table_id)])
        if head.state == "dropped" and self._state.scheduler.now - head.changed_at > HOUR:
            raise Violation("I10", f"{name} came to be an hour after the table was dropped")
        if path.startswith(SIDECARS):
            return
        version = int(name.split(".")[1] if name.endswith(".compacted.json") else name[:20])
        if version > head.floor:
            raise Violation("I15", f"{name} came to be when the floor was {head.floor}")
        if ".checkpoint." in name:
            self._checkpoint(history, version, path, content)
        elif name.endswith(".crc"):
            members = json.loads(content)
            if members["numFiles"] != len(self._model(history, version)[0]):
                raise Violation("I15", f"{name} counts {members['numFiles']} files")
        elif name.endswith(".compacted.json"):
            self._compaction(history, int(name[:20]), version, content)

    def _model(self, history: History, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return model([self._zero, *(history.facts[at].content for at in range(history.first, version + 1))])

    def _checkpoint(self, history: History, version: int, path: str, content: bytes) -> None:
        """Reads the state of the version from the checkpoint alone."""
        alone = FakeStorages(FakeClock()).open(history.location)
        there = self._state.storages.open(history.location)
        for stat in there.list(SIDECARS):
            alone.put_if_absent(stat.path, there.read(stat.path)[0])  # type: ignore[index]  # it was listed
        alone.put_if_absent(path, content)
        alone.put_if_absent(published_path(version), there.read(published_path(version))[0])  # type: ignore[index]
        state = open_state(alone, version)
        found = list(state.files())
        seen = (
            {file.path: _records(file) for file in found},
            {app: body["version"] for app, body in state.transactions.items()},
        )
        if len(found) != len(seen[0]) or seen != self._model(history, version):
            raise Violation("I15", f"the checkpoint of version {version} says {seen}")
        self._state.auditor.seen["judged"] += 1

    def _compaction(self, history: History, first: int, last: int, content: bytes) -> None:
        """The state of the last version, with the file instead of its commits."""
        before = [self._zero, *(history.facts[at].content for at in range(history.first, first))]
        if model([*(before if first else ()), content]) != self._model(history, last):
            raise Violation("I15", f"the compaction of versions {first} to {last} is not what they say")
        self._state.auditor.seen["judged compaction"] += 1


def _records(file: Add) -> int:
    return int(json.loads(file.stats or "{}").get("numRecords", -1))


def finish(state: State, worker: Worker) -> None:
    """Faults have stopped: due work is done, and the newest checkpoint is not further behind than
    the interval."""
    process = Process(state, "at rest", prone=False)
    for _ in range(3):
        state.scheduler.sleep(24 * HOUR)
        worker.work(process)

"""Damages each file of an Iceberg table, one at a time, and calls the operations that read it: a
load, a plan, gc."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.support.damage.asking import WAYS, damaged
from tests.support.fakes.world import FakeWorld, copied
from tests.support.gc import DAY
from tests.support.iceberg.client import Iceberg, set_properties
from tests.support.iceberg.planned_table import PlannedTable
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.iceberg.core.expiry import REMOVE

GRACE: Final = Grace(history_ms=2 * DAY, files_ms=3 * DAY)
PLACES: Final = 16


def _flip(place: int, content: bytes) -> bytes:
    """``content`` with a byte changed, at so many of ``PLACES`` of its length."""
    at = min(len(content) - 1, len(content) * place // PLACES)
    return content[:at] + bytes((content[at] ^ 0x55,)) + content[at + 1 :]


FLIPS: Final = {f"a byte at {place}/{PLACES}": partial(_flip, place) for place in range(PLACES + 1)}
"""Further ways: a manifest begins with a long header, and its records come behind that."""

Said = tuple[int, str]
"""The status of an answer, and its text."""


class IcebergSite:
    """A table of four appends, of which each has a data file, a manifest and a manifest list; and a
    file that nothing names."""

    def __init__(self) -> None:
        self.client = Iceberg()
        self.table = PlannedTable(self.client)
        self.world: FakeWorld = self.client.world
        for number in range(4):
            file = f"f{number}.parquet"
            self.world.storages.files[f"{self.table.location}/data/{file}"] = (b"PAR1 rows PAR1", self.world.clock.now)
            self.table.append(self.table.file(file, (number * 10, number * 10 + 9)))
        assert self.client.commit(set_properties(**{REMOVE: "true"}), path=self.table.path).status == 200
        self.unnamed = f"{self.table.location}/data/nothing-names-me.parquet"
        self.world.storages.files[self.unnamed] = (b"PAR1 rows PAR1", self.world.clock.now)
        stored = self.world.storages.files
        self.named = {path for path in stored if path.startswith(self.table.location)} - {self.unnamed}
        self.truth = {path for path in self.named if path.endswith(".parquet")}
        self.loaded = self._load()
        self.planned = self._plan()
        removed, said = self._collected()
        assert removed == {self.unnamed} and not said, (removed, said)
        assert self.planned[0] == 200

    def damages(self) -> Iterator[tuple[str, str]]:
        """Every file that the present metadata file leads to, and that one, in every way."""
        current = self.client.load(self.table.path)["metadata-location"]
        chosen = sorted(path for path in self.named if not path.endswith(".json") or path == current)
        yield from ((path, way) for path in chosen for way in (*WAYS, *FLIPS))

    def outcome(self, path: str, way: str) -> tuple[str, str]:
        """The result of the damage of a file (``asking.OUTCOMES``), and why."""
        files = self.world.storages.files
        content, at = whole = files[path]
        left = FLIPS[way](content) if way in FLIPS else damaged(content, way)
        try:
            if left is None:
                del files[path]
            else:
                files[path] = (left, at)
            return self._outcome(path)
        finally:
            files[path] = whole

    def _outcome(self, path: str) -> tuple[str, str]:
        try:
            loaded = self._load()
            planned = self._plan()
            removed, said = self._collected()
        except Exception as error:
            return "crashed", repr(error)[:300]
        if loaded[0] == 200 and loaded[1] != self.loaded[1]:
            return "believed", f"another table was loaded: {loaded[1][:200]}"
        if planned[0] == 200 and planned[1] != self.planned[1]:
            return "believed", f"another plan: {planned[1][:300]}"
        if removed & (self.named - {path}):
            return "believed", f"gc removed {sorted(removed & self.named)}"
        if 500 in (loaded[0], planned[0]):
            return "crashed", loaded[1] + planned[1]
        texts = [answer[1] for answer in (loaded, planned) if answer[0] != 200] + said
        if texts and all(path.rpartition("/")[2] in text for text in texts):
            return "told", ""
        return ("unnamed", " ".join(texts)[:400]) if texts else ("no effect", "")

    def _cold(self) -> Iceberg:
        """A sandbox that has nothing in its memory."""
        return Iceberg(beside=self.client)

    def _load(self) -> Said:
        answer = self._cold().get(self.table.path)
        return answer.status, str(answer.json["metadata"]) if answer.status == 200 else answer.text

    def _plan(self) -> Said:
        answer = self._cold().post(f"{self.table.path}/plan", {})
        if answer.status != 200:
            return answer.status, answer.text
        tasks = [task["data-file"] for task in answer.json["file-scan-tasks"]]
        return 200, str(sorted(str(sorted(task.items(), key=str)) for task in tasks))

    def _collected(self) -> tuple[set[str], list[str]]:
        """The removals of a run of gc three weeks later, and the problems that it reports."""
        world = copied(self.world)
        before = set(world.storages.files)
        said = list[str]()
        for _ in range(3):
            world.clock.now += 7 * DAY
            report = Collector(world, GRACE, workers=1).collect(("iceberg", "iceberg-files"), dry_run=False)
            said += [f"{problem.id} {problem.message}" for problem in report.problems]
        gone = before - set(world.storages.files)
        return {path for path in gone if not path.endswith(".json")}, said


def counts(site: IcebergSite, show: object = None) -> dict[str, Counter[str]]:
    """The results of all damages, by kind of file."""
    found: dict[str, Counter[str]] = {}
    for path, way in site.damages():
        outcome, why = site.outcome(path, way)
        found.setdefault(kind_of(path), Counter())[outcome] += 1
        if callable(show) and outcome not in ("told", "no effect"):
            show(f"{outcome}: {path.rpartition('/')[2]} {way}: {why}")
    return found


def kind_of(path: str) -> str:
    """The kind of a file, for the table of counts."""
    name = path.rpartition("/")[2]
    if name.endswith(".parquet"):
        return "data file"
    if name.endswith(".json"):
        return "metadata file"
    return "manifest list" if name.startswith("snap-") else "manifest"

"""Damage, generated: every file below ten small tables is emptied, cut in half, changed in its middle and removed, one at a time, and then
everything that derives something from a table is asked.

    python -m tests.support.damage            # all of it, some minutes; prints a table of counts

What comes of a damage is one of

    told       an error of the product's own, a finding, a deviation or a problem names the file, or says that the folder is gone
    no effect  every answer is that of the undamaged table
    unnamed    an error of the product's own that names no file
    crashed    another exception
    believed   an answer that is wrong, or a file that was written or removed because of one

Tables are on files of a folder, with the coordinator's rows in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time_ns
from typing import Any, Final

from pyarrow import parquet

from tests.support.catalog import create, head_of
from tests.support.clones import clone, commit
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.legacy import legacy_info, legacy_metadata, legacy_protocol
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.delta.verify import Verifier
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.maintenance.state import open_state
from turnstile.maintenance.work import Maintainer
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.evaluate import clone as cloned_rows
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import LOG, published_path
from turnstile.transfer.imports import Importer

DAY_MS: Final = 86_400_000
HISTORY_MS: Final = 7 * DAY_MS
GRACE: Final = Grace(history_ms=HISTORY_MS)
CHECKPOINT: Final = 10
LATEST: Final = 24
WAYS: Final = ("emptied", "cut", "flipped", "removed")
OUTCOMES: Final = ("told", "no effect", "unnamed", "crashed", "believed")


def damaged(content: bytes, way: str) -> bytes | None:
    """``content`` as the damage leaves it; None: no file."""
    middle = len(content) // 2
    match way:
        case "emptied":
            return b""
        case "cut":
            return content[:middle]
        case "flipped":
            at = max(0, middle - 32)
            return content[:at] + bytes(byte ^ 0x55 for byte in content[at : at + 64]) + content[at + 64 :]
        case _:
            return None


@dataclass
class Case:
    """A table in a lake of its own, and what is known of it."""

    name: str
    folder: Path
    world: FakeWorld
    services: CatalogServices
    table_id: str
    below: Path
    truth: dict[int, set[str]] = field(default_factory=dict)

    @property
    def head(self) -> Any:
        return head_of(self.world, self.table_id)

    def files(self) -> list[Path]:
        """Every file below the table, without hidden ones."""
        found = (Path(at) / name for at, _, names in os.walk(self.below) for name in names)
        return sorted(path for path in found if not path.name.startswith("."))


# -- the tables -----------------------------------------------------------------------------------------------------------


def _world(folder: Path) -> tuple[FakeWorld, CatalogServices]:
    world = replace(fake_world(), storages=FileStorages(None))
    world.clock.now = time_ns() // 1_000_000
    lake = f"file://{folder}/lake"
    bootstrap.ensure(world, lake_root=lake)
    return world, build(world, lake_root=lake, limits=Limits(history_ms=HISTORY_MS))


def _data(storage: Any, path: str) -> None:
    storage.put_if_absent(path, b"0123456789")


def _append(case: Case, number: int, **more: Any) -> None:
    """A commit that adds a file and, now and then, removes one."""
    storage = case.world.storages.open(case.head.location)
    path = f"part-{number:05d}-a0000000-0000-4000-8000-{number:012d}.c000.snappy.parquet"
    _data(storage, path)
    actions = [delta.add(path, **more)]
    if number % 5 == 4:
        before = case.truth[number - 1]
        if number >= 12:
            actions.append(delta.remove(min(before)))
    version = commit(case.world, case.table_id, *actions)
    Publisher(case.world).publish(case.table_id)
    files = set(case.truth.get(version - 1, ())) | {path}
    for action in actions[1:]:
        files.discard(action["remove"]["path"])
    case.truth[version] = files


def _grown(
    case: Case,
    *,
    light_work: bool,
    index: bool = False,
    latest: int = LATEST,
    more: Callable[[int], dict[str, Any]] = lambda _: {},
) -> Case:
    """The table with commits up to ``latest``, and with a checkpoint of version ``CHECKPOINT``."""
    case.truth.setdefault(0, set())
    for number in range(case.head.latest + 1, latest + 1):
        _append(case, number, **more(number))
        if light_work and number == CHECKPOINT:
            _maintain(case, index=index)
    return case


def _maintain(case: Case, *, index: bool = False) -> Any:
    following = (IndexUpkeep(case.world),) if index else ()
    return Maintainer(case.world, following=following).maintain(case.table_id)


def _aged(case: Case) -> Case:
    """Nine weeks later; the catalog was changed each week, so that its past holds nothing of the table."""
    for week in range(9):
        case.world.clock.now += 7 * DAY_MS
        case.services.namespaces.create("main", (f"week{week}-{case.world.clock.now}",))
    return case


def _managed(name: str, folder: Path, *features: str, **properties: str) -> Case:
    world, services = _world(folder)
    table_id = create(services)
    case = Case(
        name, folder, world, services, table_id, Path(head_of(world, table_id).location.removeprefix("file://"))
    )
    case.truth[0] = set()
    if features or properties:
        zero = delta.version_zero("x", 0, *features, **properties).splitlines()[1:]
        actions = [json.loads(line) for line in zero]
        actions[1]["metaData"]["configuration"] |= {"io.unitycatalog.tableId": table_id}
        for member in ("readerFeatures", "writerFeatures"):
            for feature in features:
                if feature in ("v2Checkpoint", "deletionVectors") and feature not in actions[0]["protocol"][member]:
                    actions[0]["protocol"][member].append(feature)
        commit(world, table_id, *actions)
        Publisher(world).publish(table_id)
        case.truth[1] = set()
    return case


VECTOR: Final = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 1,
}


def plain(folder: Path) -> Case:
    return _grown(_managed("plain", folder), light_work=False, latest=9)


def partitioned(folder: Path) -> Case:
    case = _managed("partitioned", folder)
    return _grown(case, light_work=True, more=lambda number: {"tags": {"day": f"2026-11-{number:02d}"}})


def vectors(folder: Path) -> Case:
    case = _managed("deletion vectors", folder, "deletionVectors")
    return _grown(
        case, light_work=True, more=lambda number: {"deletionVector": VECTOR} if number % 3 == 0 and number > 12 else {}
    )


def checkpointed(folder: Path) -> Case:
    return _grown(_managed("checkpoint", folder), light_work=True)


def indexed(folder: Path) -> Case:
    return _grown(_managed("file index", folder), light_work=True, index=True)


def v2(folder: Path) -> Case:
    asked = {"delta.checkpointPolicy": "v2"}
    return _grown(_managed("V2 checkpoint", folder, "v2Checkpoint", **asked), light_work=True)


def parts(folder: Path) -> Case:
    """Its checkpoint is of two parts."""
    case = _grown(_managed("checkpoint of parts", folder), light_work=True)
    whole = case.below / LOG / f"{CHECKPOINT:020d}.checkpoint.parquet"
    table = parquet.read_table(whole)
    middle = len(table) // 2
    for number, rows in ((1, table.slice(0, middle)), (2, table.slice(middle))):
        part = f"{CHECKPOINT:020d}.checkpoint.{number:010d}.{2:010d}.parquet"
        parquet.write_table(rows, case.below / LOG / part, write_page_checksum=True)
    whole.unlink()
    return case


def unsealed(folder: Path) -> Case:
    """Its checkpoint is of a writer that leaves no checksums of pages, and compresses none; there is no version checksum."""
    case = _grown(_managed("checkpoint without checksums", folder), light_work=True)
    path = case.below / LOG / f"{CHECKPOINT:020d}.checkpoint.parquet"
    table = parquet.read_table(path)
    path.unlink()
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    (case.below / LOG / f"{CHECKPOINT:020d}.crc").unlink()
    return case


def imported(folder: Path) -> Case:
    world, services = _world(folder)
    place = f"file://{folder}/old/t"
    storage = world.storages.open(place)
    actions = ([legacy_protocol(), legacy_metadata(), legacy_info("CREATE TABLE")],)
    for number in range(CHECKPOINT):
        if number == 0:
            storage.put_if_absent(published_path(0), delta.lines(*actions[0]))
        else:
            _data(storage, f"f{number}")
            storage.put_if_absent(published_path(number), delta.lines(legacy_info(), delta.add(f"f{number}")))
    table_id = Importer(services).run("main", ("default",), "t", place).table_id
    case = Case("imported", folder, world, services, table_id, folder / "old" / "t")
    files = {f"f{number}" for number in range(1, CHECKPOINT)}
    case.truth = {number: {f"f{at}" for at in range(1, number + 1)} for number in range(CHECKPOINT)}
    case.truth[case.head.latest] = files
    return _grown(case, light_work=True)


def cloned(folder: Path) -> Case:
    """A clone of a table: what is damaged are its source's files."""
    case = _grown(_managed("cloned", folder), light_work=True)
    result = clone(case.services, "default.t", "default.c")
    case.table_id = (
        result.table_id
        if hasattr(result, "table_id")
        else case.services.reader.resolve("main", ("default",), "c").table_id
    )
    return case


def cleaned(folder: Path) -> Case:
    """Its log begins at a checkpoint."""
    case = _grown(_managed("cleaned log", folder), light_work=True)
    now, weeks = case.world.clock.now, _aged(case)
    Collector(weeks.world, GRACE, workers=1).collect(("log",), dry_run=False)
    assert not (case.below / published_path(0)).exists() and case.world.clock.now > now
    return case


TABLES: Final = (plain, partitioned, vectors, checkpointed, indexed, v2, parts, unsealed, imported, cloned, cleaned)


# -- asking -------------------------------------------------------------------------------------------------------------


@dataclass
class Answers:
    """What was answered: by question, what is compared; all that was said of files; errors that are none of the product's own."""

    values: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ask(self, question: str, call: Callable[[], Any]) -> Any:
        try:
            self.values[question] = value = call()
            return value
        except TurnstileError as error:
            self.values[question] = (type(error).__name__,)
            text = f"{error.message} {error.details}"
            self.said.append(text)
            self.typed.append(question)
        except Exception as error:
            self.values[question] = (type(error).__name__,)
            self.crashes.append(f"{question}: {error!r}"[:300])
        return None


def _verify(case: Case, answers: Answers) -> None:
    def call() -> Any:
        found = Verifier(case.world).verify(case.table_id)
        answers.said += [f"{each.path} {each.message}" for each in found.deviations]
        return [(each.version, each.kind, each.path) for each in found.deviations], found.not_judged

    answers.ask("verify", call)


def _repair(case: Case, answers: Answers) -> None:
    def call() -> Any:
        found = Repairer(case.world, Publisher(case.world)).diagnose(case.table_id)
        if found.finding != "healthy":
            answers.said.append(f"{found.message} {found.facts}")
        return found.finding

    answers.ask("repair", call)


def _plan(case: Case, answers: Answers) -> None:
    head = case.head
    seen = answers.ask("plan", lambda: sorted(file.path for file in Planner(case.world).plan(head).files))
    if seen is not None and set(seen) != case.truth[head.latest]:
        answers.wrong.append(f"plan: {len(seen)} files, not {len(case.truth[head.latest])}")

    def detail() -> Any:
        plan = Planner(case.world).plan(head, limit=1, explain=True)
        return plan.statistics.total_files, plan.statistics.total_bytes, plan.metadata, plan.protocol

    counted = answers.ask("detail", detail)
    if counted is not None and counted[0] != len(case.truth[head.latest]):
        answers.wrong.append(f"detail: {counted[0]} files")


def _light_work(case: Case, answers: Answers) -> None:
    storage = case.world.storages.open(case.head.location)
    before = {stat.path for stat in storage.list(LOG)}

    def call() -> Any:
        done = _maintain(case, index=True)
        if done.outcome == "failed":
            answers.said.append(done.reason)
            answers.typed.append("light work")
            if "Error(" in done.reason and "Log" not in done.reason:
                answers.crashes.append(f"light work: {done.reason}"[:300])
        return done.outcome, done.checkpoints

    done = answers.ask("light work", call)
    written = {stat.path for stat in storage.list(LOG)} - before
    for at in done[1] if done is not None else ():
        files = [path for path in written if f"{at:020d}.checkpoint" in path]
        assert files
        alone = {stat.path for stat in storage.list(LOG) if f"{at:020d}." in stat.path}
        state = open_state(storage, at)
        if state.start != at or {add.path for add in state.files()} != case.truth[at]:
            answers.wrong.append(f"light work: the checkpoint of version {at} ({len(alone)} files) has other files")


def _gc(case: Case, answers: Answers, *, readable: bool) -> None:
    def call() -> Any:
        report = Collector(case.world, GRACE, workers=1).collect(("log",), dry_run=False)
        answers.said += [f"{each.id} {each.message}" for each in report.problems]
        return sorted(item.id for item in report.items), len(report.problems)

    done = answers.ask("gc", call)
    if done is None or not done[0]:
        return
    if not readable:
        answers.wrong.append(f"gc: removed {len(done[0])} files of a log that cannot be read")
        return
    head, storage = case.head, case.world.storages.open(case.head.location)
    try:
        left = {add.path for add in open_state(storage, head.floor).files()}
    except TurnstileError:
        left = None
    if left != case.truth[head.floor]:
        answers.wrong.append(f"gc: removed {len(done[0])} files, and the log does not say the same any more")


class Site:
    """A case that is put back after each damage."""

    def __init__(self, case: Case) -> None:
        self.case, self.kept = case, case.folder.with_name(case.folder.name + "-kept")
        shutil.copytree(case.folder, self.kept, copy_function=shutil.copy2)
        world = case.world
        self._rows, self._objs = cloned_rows(world.refs.rows), dict(world.objs.rows)
        self._now = world.clock.now
        self.undamaged = self.answers()

    def restore(self) -> None:
        shutil.rmtree(self.case.folder)
        shutil.copytree(self.kept, self.case.folder, copy_function=shutil.copy2)
        world = self.case.world
        world.refs.rows.clear()
        world.refs.rows.update(cloned_rows(self._rows))
        world.objs.rows.clear()
        world.objs.rows.update(self._objs)
        world.clock.now = self._now

    def answers(self, damage: Callable[[], None] = lambda: None) -> Answers:
        answers = Answers()
        damage()
        _verify(self.case, answers)
        _repair(self.case, answers)
        _plan(self.case, answers)
        readable = "plan" not in answers.typed and not any(each.startswith("plan") for each in answers.wrong)
        _light_work(self.case, answers)
        self.restore()
        damage()
        _gc(_aged(self.case), answers, readable=readable)
        self.restore()
        return answers

    def outcome(self, path: Path, way: str) -> tuple[str, Answers]:
        """What comes of the damage of a file."""
        whole = path.read_bytes()

        def damage() -> None:
            left = damaged(whole, way)
            if left is None:
                path.unlink()
            else:
                times = path.stat()
                path.write_bytes(left)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        answers = self.answers(damage)
        if answers.wrong:
            return "believed", answers
        if answers.crashes:
            return "crashed", answers
        if any(path.name in text or "folder is gone" in text for text in answers.said):
            return "told", answers
        if answers.values == self.undamaged.values:
            return "no effect", answers
        return "unnamed", answers


def kind_of(path: Path) -> str:
    """What a file is, for the table of counts."""
    name = path.name
    for part, kind in (
        ("_last_checkpoint", "pointer"), (".compacted.", "compaction"), (".checkpoint.", "checkpoint"), (".crc", "checksum"),
    ):  # fmt: skip
        if part in name:
            return kind
    if path.parent.name == "_sidecars":
        return "sidecar"
    if path.parent.name == "_staged_commits":
        return "staged commit"
    if path.parent.name == "_delta_log":
        return "commit"
    return "index" if path.parent.name.startswith("_") else "data file"


def damages(case: Case, *, each: int = 1) -> Iterator[tuple[Path, str]]:
    """Every file in every way; ``each`` n-th of them."""
    every = [(path, way) for path in case.files() for way in WAYS]
    yield from every[::each]


def run(
    tables: Any = TABLES, *, each: int = 1, show: Callable[[str], None] = lambda _: None
) -> dict[tuple[str, str], Counter[str]]:
    """What came of the damages, counted by table and kind of file."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    with tempfile.TemporaryDirectory() as place:
        for make in tables:
            folder = Path(place) / make.__name__
            folder.mkdir()
            site = Site(make(folder))
            base = site.undamaged
            assert not (base.wrong or base.crashes or base.typed), (make.__name__, base)
            for path, way in damages(site.case, each=each):
                outcome, answers = site.outcome(path, way)
                counts.setdefault((site.case.name, kind_of(path)), Counter())[outcome] += 1
                if outcome in ("unnamed", "crashed", "believed"):
                    show(
                        f"{outcome}: {site.case.name}: {path.name} {way}: {answers.wrong or answers.crashes or answers.said}"
                    )
    return counts


def table_of(counts: dict[tuple[str, str], Counter[str]]) -> str:
    """The counts as a table of Markdown."""
    lines = ["| table | file | " + " | ".join(OUTCOMES) + " |", "| --- | --- |" + " ---: |" * len(OUTCOMES)]
    total = Counter[str]()
    for (name, kind), each in counts.items():
        lines.append(f"| {name} | {kind} | " + " | ".join(str(each[outcome]) for outcome in OUTCOMES) + " |")
        total.update(each)
    lines.append("| all | | " + " | ".join(str(total[outcome]) for outcome in OUTCOMES) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = [make for make in TABLES if make.__name__ in sys.argv[1:]] or TABLES
    sys.stdout.write(table_of(run(chosen, show=lambda text: sys.stderr.write(text + "\n"))) + "\n")

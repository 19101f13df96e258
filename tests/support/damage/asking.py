"""Damages files of a table, and asks everything that derives something from it
(``tests.support.damage``)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.damage.tables import GRACE, TABLES, Case, aged, maintain, new_world
from turnstile.delta.log.state import LogState, read_state
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.delta.verify import Verifier
from turnstile.gc.collector import Collector
from turnstile.maintenance.state import open_state
from turnstile.planning.planner import Planner
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.evaluate import clone as cloned_rows
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import LogStorage
from turnstile.transfer.survey import Surveyor

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
class Answers:
    """The answers: by question, the compared part; all that was said of files; errors that are none
    of the product's own."""

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
        done = maintain(case, index=True)
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


def _states(case: Case, answers: Answers) -> None:
    """The table's definition as clones of the past and recoveries read it: at the floor, and
    before."""
    head = case.head
    storage = case.world.storages.open(head.location)
    for version in (head.floor, head.floor - 3):
        answers.ask(f"state {version}", partial(_state_at, storage, head.location, version))


def _import(case: Case, answers: Answers) -> None:
    """A survey of the table by another catalog, which takes it over. It cannot know of a newest
    commit that is not there."""
    world, services = new_world(case.folder.with_name(f"{case.folder.name}-other"))
    surveyor = Surveyor(world, services.reader, services.limits, services.lake_root)

    def call() -> Any:
        survey = surveyor.survey("main", ("default", "t"), case.head.location, take_over=True)
        if survey.problems:
            raise survey.problems[0]
        assert survey.state is not None
        return _described(survey.state)

    answers.ask("import", call)


def _state_at(storage: LogStorage, location: str, version: int) -> Any:
    return _described(read_state(storage, location, version))


def _described(state: LogState) -> Any:
    return state.version, state.protocol, state.metadata, state.domains, state.ict


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
    head = case.head
    storage = case.world.storages.open(case.head.location)
    try:
        left = {add.path for add in open_state(storage, head.floor).files()}
    except TurnstileError:
        left = None
    if left != case.truth[head.floor]:
        answers.wrong.append(f"gc: removed {len(done[0])} files, and the log does not say the same any more")


class Site:
    """A case that is put back after each damage."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kept = case.folder.with_name(case.folder.name + "-kept")
        shutil.copytree(case.folder, self.kept, copy_function=shutil.copy2)
        world = case.world
        self._rows = cloned_rows(world.refs.rows)
        self._objs = dict(world.objs.rows)
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
        _states(self.case, answers)
        _import(self.case, answers)
        readable = "plan" not in answers.typed and not any(each.startswith("plan") for each in answers.wrong)
        _light_work(self.case, answers)
        self.restore()
        damage()
        _gc(aged(self.case), answers, readable=readable)
        self.restore()
        return answers

    def outcome(self, path: Path, way: str) -> tuple[str, Answers]:
        """The result of the damage of a file."""
        whole = path.read_bytes()
        newest = self.case.below / published_path(self.case.head.floor)

        def damage() -> None:
            left = damaged(whole, way)
            if left is None:
                path.unlink()
            else:
                times = path.stat()
                path.write_bytes(left)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        answers = self.answers(damage)
        answers.wrong += [
            f"{question}: {value}"
            for question, value in answers.values.items()
            if question.startswith(("state", "import"))
            and question not in answers.typed
            and value != self.undamaged.values[question]
            and not (question == "import" and path == newest and way == "removed")
        ]
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
    """The kind of a file, for the table of counts."""
    name = path.name
    for part, kind in (
        ("_last_checkpoint", "pointer"), (".compacted.", "compaction"), (".checkpoint.", "checkpoint"),
        (".crc", "checksum"),
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
    """The results of the damages, counted by table and kind of file."""
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
                        f"{outcome}: {site.case.name}: {path.name} {way}: "
                        f"{answers.wrong or answers.crashes or answers.said}"
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

"""The statements of a transaction that were given to it as texts (``txn.sql``), with the reads and
writes of each.

They can run again when the transaction loses (:mod:`turnstile_spark.transactions.recovery.replay`).
The program's other work in the transaction, by ``spark.sql`` or DataFrames, is recorded as well,
between them, but never run again: only the program knows its purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from turnstile_spark.jvm import JavaObject, Jvm
from turnstile_spark.transactions.conflicts.conflict_check import Read, parse
from turnstile_spark.transactions.reads.read_sets import Collector
from turnstile_spark.transactions.recovery.replay_choice import Statement
from turnstile_spark.transactions.scopes.scope import Held, Scope

log = logging.getLogger("turnstile_spark")
_INSERTS: Final = frozenset(("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"))
_CHANGES: Final = frozenset(("DeleteCommand", "UpdateCommand", "MergeIntoCommand"))
#: What Spark's parser makes of the statements that are run again.
_PARSED: Final = frozenset(
    ("InsertIntoStatement", "OverwriteByExpression", "UpdateTable", "DeleteFromTable", "MergeIntoTable")
)


@dataclass(frozen=True, slots=True)
class Text:
    """A statement as the program gave it, and the settings of the session that determine its
    meaning: catalog, namespace, time zone, ANSI mode, case sensitivity, and how values are stored.
    """

    sql: str
    settings: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """One piece of work. ``text``: None when it is not one statement given as a text. ``reads``:
    with the paths of their tables; ``held``: by table id; ``obstacle``: why it cannot run again;
    empty when it can.
    """

    name: str
    text: Text | None = None
    reads: Sequence[Read] = ()
    held: Mapping[str, Sequence[Held]] = field(default_factory=dict)
    obstacle: str = ""

    def statement(self, scope: Scope) -> Statement:
        """As :mod:`turnstile_spark.transactions.recovery.replay_choice` looks at it. ``scope``: the
        one it was done in."""
        reads: dict[str, list[Read]] = {}
        for read in self.reads:
            if (table := scope.at(read.table)) is not None:
                reads.setdefault(table.state.table_id, []).append(read)
        commits = {table_id: [parse(commit.content) for commit in held] for table_id, held in self.held.items()}
        return Statement(self.name, reads, commits, self.obstacle)


class Statements:
    """The statements of one transaction, on one thread. ``scope``: the transaction's;
    ``collector``: open, of its reads; it has collected from the begin of the transaction if
    ``is_from_begin``.
    """

    def __init__(self, jvm: Jvm, spark: Any, scope: Scope, collector: Collector, *, is_from_begin: bool) -> None:
        self._jvm = jvm
        self._spark = spark
        self._collector = collector
        self.scope = scope
        self.entries: list[Recorded] = []
        self._counts: dict[str, int] = {}  # held commits by table id, of all entries
        self._number = 0
        if not is_from_begin and scope.tables():
            self.flush(
                [
                    Read(path, version, why="it was read before its first txn.sql")
                    for path, version in self._tables().items()
                ]
            )

    def run(self, sql: str) -> Any:
        """Runs a statement. Returns None for one that changes rows; the DataFrame of any other.
        Raises Spark's errors."""
        self.flush()
        text = Text(sql, self._settings())
        frame = self._spark.sql(sql)
        execution = frame._jdf.queryExecution()
        analysed = execution.analyzed()
        if str(analysed.getClass().getSimpleName()) not in _INSERTS | _CHANGES:
            return frame
        self._number += 1
        reads = self._window()
        held = self._take_held()
        obstacle = self._obstacle(execution.logical(), analysed, held)
        self.entries.append(Recorded(f"statement {self._number}", text, reads, held, obstacle))
        return None

    def run_again(self, recorded: Recorded) -> Recorded:
        """Runs a statement once more, in the present :attr:`scope`. Raises Spark's errors."""
        assert recorded.text is not None, recorded.obstacle
        self._spark.sql(recorded.text.sql)
        again = Recorded(recorded.name, recorded.text, self._window(), self._take_held(), recorded.obstacle)
        self.entries.append(again)
        return again

    def keep(self, recorded: Recorded, reads: Sequence[Read], held: Mapping[str, Sequence[Held]]) -> None:
        """Takes over the work of a statement, as it is held in the present :attr:`scope`."""
        self.entries.append(Recorded(recorded.name, recorded.text, reads, held, recorded.obstacle))
        self._take_held()

    def start_over(self, scope: Scope) -> list[Recorded]:
        """Forgets all entries, and returns them: they are recorded anew in another scope, where
        nothing is held yet."""
        entries = self.entries
        self.entries = []
        self.scope = scope
        self._counts = {}
        return entries

    def flush(self, reads: Sequence[Read] = ()) -> None:
        """Makes an entry of the work since the last one, if there was any. ``reads``: that are
        known otherwise."""
        all_reads = [*reads, *self._window()]
        held = self._take_held()
        if all_reads or held:
            name = f"what the program did {'before' if self._number == 0 else 'after'} statement {max(self._number, 1)}"
            self.entries.append(Recorded(name, None, all_reads, held, "it was not run with txn.sql"))

    def go_back(self, position: int) -> None:
        """Forgets the statements from an entry on, after the scope went back to a point before
        them. The program's own work is forgotten as far as it was taken back: its reads stay."""
        left = {table_id: len(table.held) for table_id, table in self.scope.tables().items()}
        entries = []
        for at, entry in enumerate(self.entries):
            if at >= position and entry.text is not None:
                continue
            held = {table_id: some[: left.get(table_id, 0)] for table_id, some in entry.held.items()}
            left |= {table_id: left.get(table_id, 0) - len(some) for table_id, some in held.items()}
            entries.append(replace(entry, held={table_id: some for table_id, some in held.items() if some}))
        self.entries = entries
        self._take_held()

    def is_as_it_was(self, recorded: Recorded) -> bool:
        """Whether the session has the settings that the statement ran with."""
        return recorded.text is None or recorded.text.settings == self._settings()

    def reads(self) -> dict[str, list[Read]]:
        """The reads of all of them, by table id."""
        reads: dict[str, list[Read]] = {}
        for entry in self.entries:
            for table_id, some in entry.statement(self.scope).reads.items():
                reads.setdefault(table_id, []).extend(some)
        return reads

    def _settings(self) -> str:
        return str(self._collector.plans.settings(self._spark._jsparkSession))

    def _tables(self) -> dict[str, int]:
        return {table.state.location: table.latest for table in self.scope.tables().values()}

    def _window(self) -> list[Read]:
        return self._collector.window(self._tables())

    def _take_held(self) -> dict[str, list[Held]]:
        """The commits that were held since the last call, by table id."""
        tables = self.scope.tables()
        held = {table_id: table.held[self._counts.get(table_id, 0) :] for table_id, table in tables.items()}
        self._counts = {table_id: len(table.held) for table_id, table in tables.items()}
        return {table_id: some for table_id, some in held.items() if some}

    def _obstacle(self, parsed: JavaObject, analysed: JavaObject, held: Mapping[str, Sequence[Held]]) -> str:
        """Why a statement cannot run again, by its plans, and by the commits ``held`` while it
        ran."""
        plans = self._collector.plans
        path = _target(plans, analysed)
        target = None if path is None else self.scope.at(path)
        if target is None:
            return "it changes something outside the lake, at once"
        if held.keys() - {target.state.table_id} or any(len(commits) > 1 for commits in held.values()):
            return "more was written while it ran than one commit of its table (by another thread, or by a compaction)"
        if unrepeatable := str(plans.unrepeatable(self._spark._jsparkSession, parsed, analysed)):
            return (
                f"it depends on {unrepeatable}, which may be another when it runs again (a value written into the "
                f"statement is not)"
            )
        return ""


def statements_of(spark: Any, script: str) -> list[str] | None:
    """The statements of a script that only changes rows, one after the other; None for any other
    (with variables, control flow, handlers, queries). Raises the errors of Spark's parser."""
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(script)
    if str(parsed.getClass().getSimpleName()) != "CompoundBody":
        return None
    texts = []
    parts = parsed.collection().iterator()
    while parts.hasNext():
        part = parts.next()
        if str(part.getClass().getSimpleName()) != "SingleStatement":
            return None
        plan = part.parsedPlan()
        if str(plan.getClass().getSimpleName()) == "UnresolvedWith":
            plan = plan.child()
        if str(plan.getClass().getSimpleName()) not in _PARSED:
            return None
        texts.append(str(part.getText()))
    handlers = parsed.handlers()
    return texts if texts and handlers.isEmpty() and parsed.conditions().isEmpty() else None


def _target(plans: JavaObject, analysed: JavaObject) -> str | None:
    """The path of the Delta table that a statement changes; None when it is no Delta table."""
    if str(analysed.getClass().getSimpleName()) in _INSERTS:
        relation = analysed.table()
        if str(relation.getClass().getSimpleName()) != "DataSourceV2Relation":
            return None
        table = relation.table()
        is_delta = str(table.getClass().getSimpleName()) == "DeltaTableV2"
        return str(table.deltaLog().dataPath().toString()) if is_delta else None
    for leaf in plans.nodes(analysed.target()):
        index = plans.fileIndex(leaf.relation()) if str(leaf.getClass().getSimpleName()) == "LogicalRelation" else None
        if index is not None and str(index.getClass().getName()).startswith("org.apache.spark.sql.delta."):
            return str(index.deltaLog().dataPath().toString())
    return None

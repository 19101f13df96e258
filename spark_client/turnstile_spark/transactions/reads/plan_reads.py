"""From Spark's plans to their reads of Delta tables.

A query is known by two logical plans. The *analysed* one names every table it mentions; the
*optimised* one has the scans that Delta prepared, with version, filters and files. A table that was
mentioned and has no scan counts as read whole: Delta may have answered from its statistics
(``count(*)``), or read it in a way that leaves no scan. DELETE, UPDATE and MERGE read their target
by their condition, overwriting INSERTs by the replaced rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from turnstile_spark.jvm import JavaObject, items
from turnstile_spark.transactions.conflicts.conflict_check import Read
from turnstile_spark.transactions.reads.catalyst_predicates import conjunction, predicate_of

_DELTA: Final = "org.apache.spark.sql.delta."
_DML: Final = {_DELTA + f"commands.{name}Command" for name in ("Delete", "Update", "MergeInto")}
#: Commands of Delta that read a table's log only.
_LOG_ONLY: Final = frozenset(("DescribeDeltaHistory", "DescribeDeltaHistoryCommand", "DescribeDeltaDetailCommand"))
#: More files than this are not listed with a read.
MOST_FILES: Final = 20_000


class NotUnderstood(Exception):
    """A plan reads in a way that this package does not know. The message says which."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A table in a plan. ``ids``: Spark's expression ids of its columns, which tell mentions of a
    table apart."""

    table: str
    version: int
    ids: frozenset[int]


@dataclass(slots=True)
class PlanReads:
    """The reads of one execution. ``scans``: reads by mention; ``commands``: reads of their target
    by commands; ``others``: reads that need no scan; ``mentions``: of tables that have to have a
    scan; ``fixed_files``: mentions of files that the command around this execution has chosen, and
    these files; ``cached``: tables read through Spark's cache.
    """

    scans: list[tuple[Mention, Read]] = field(default_factory=list)
    commands: list[tuple[Mention, Read]] = field(default_factory=list)
    others: list[Read] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    fixed_files: list[tuple[Mention, frozenset[str] | None]] = field(default_factory=list)
    cached: set[str] = field(default_factory=set)
    is_from_statistics: bool = False


def of_execution(plans: JavaObject, analysed: JavaObject, optimised: JavaObject | None) -> PlanReads:
    """The reads of an execution with these plans. ``plans``: the class that
    :mod:`turnstile_spark.transactions.reads.read_sets` compiles, with static helpers; ``optimised``
    None: the execution failed before there was one. Raises :class:`NotUnderstood`.
    """
    walk = _Walk(plans)
    nodes = list(plans.nodes(optimised)) if optimised is not None else []
    if nodes and all(_name(node) == "CommandResult" for node in nodes):
        return walk.reads  # the command had an execution of its own
    used = None
    if optimised is not None:
        used = frozenset(int(i) for i in str(plans.references(optimised)).split(",") if i)
    for node in nodes:
        walk.visit(node, used)
    if optimised is not None:
        walk.reads.is_from_statistics = bool(plans.answersFromStatistics(analysed, optimised))
    for node in plans.nodes(analysed):
        walk.mention(node)
    return walk.reads


class _Walk:
    def __init__(self, plans: JavaObject) -> None:
        self._plans = plans
        self.reads = PlanReads()

    def visit(self, node: JavaObject, used: frozenset[int] | None) -> None:
        """A leaf or command of an optimised plan."""
        name = _name(node)
        if name == "LogicalRelation":
            self._relation(node.relation(), node.output(), used)
        elif name == "InMemoryRelation":
            for scan in self._plans.cachedScans(node):
                relation = scan.relation()
                self._relation(relation, scan.output(), None)
                if (index := self._index(relation)) is not None:
                    self.reads.cached.add(_path(index.deltaLog()))
        elif name in ("DataSourceV2Relation", "DataSourceV2ScanRelation"):
            self._source(node)
        elif str(node.getClass().getName()) in _DML:
            self._dml(node, name)
        elif name in ("OverwriteByExpression", "OverwritePartitionsDynamic"):
            self._overwrite(node, name)
        elif name == "RestoreTableCommand":
            snapshot = node.sourceTable().deltaLog().unsafeVolatileSnapshot()
            self.reads.others.append(Read(_path(snapshot.deltaLog()), int(snapshot.version()), why="RESTORE"))
        elif str(node.getClass().getName()).startswith(_DELTA + "commands.") and name not in _LOG_ONLY:
            raise NotUnderstood(f"the command {name}")

    def mention(self, node: JavaObject) -> None:
        """A leaf or command of an analysed plan: a table that is mentioned has to have a scan."""
        name = _name(node)
        if name == "LogicalRelation":
            index = self._index(node.relation())
            if index is not None and _name(index) == "TahoeLogFileIndex":
                self.reads.mentions.append(_mention(index, node.output()))
        elif name == "MergeIntoCommand":
            for leaf in self._plans.nodes(node.source()):
                self.mention(leaf)

    def _index(self, relation: JavaObject) -> JavaObject | None:
        """The file index of a Delta table; None for other relations, and for Delta's reads of its
        own logs."""
        index = self._plans.fileIndex(relation)
        if index is None:
            if str(relation.getClass().getName()).startswith(_DELTA):
                raise NotUnderstood(f"a read of {relation.getClass().getName()}")
            return None
        if not str(index.getClass().getName()).startswith(_DELTA) or _name(index) == "DeltaLogFileIndex":
            return None
        return index

    def _relation(self, relation: JavaObject, output: JavaObject, used: frozenset[int] | None) -> None:
        index = self._index(relation)
        if index is None:
            return
        kind = _name(index)
        mention = _mention(index, output)
        attributes = _attributes(output)
        if kind == "PreparedDeltaFileIndex":
            scan = index.preparedScan()
            filters = [predicate_of(e, attributes) for e in items(scan.allFilters())]
            columns = None if used is None else frozenset((attributes[i],) for i in mention.ids & used)
            read = Read(
                mention.table,
                int(scan.version()),
                conjunction(filters),
                columns,
                self._files(scan.files()),
                is_time_travel=bool(index.versionScanned().isDefined()),
            )
            self.reads.scans.append((mention, read))
        elif kind == "TahoeBatchFileIndex":
            self.reads.fixed_files.append((mention, self._files(index.addFiles())))
        else:
            self.reads.mentions.append(mention)

    def _files(self, files: JavaObject) -> frozenset[str] | None:
        if int(files.size()) > MOST_FILES:
            return None
        text = str(self._plans.paths(files))
        return frozenset(text.split("\n")) if text else frozenset()

    def _source(self, node: JavaObject) -> None:
        relation = node.relation() if _name(node) == "DataSourceV2ScanRelation" else node
        table = relation.table()
        if str(table.getClass().getName()) == _DELTA + "catalog.DeltaTableV2":
            snapshot = table.initialSnapshot()
            self.reads.others.append(
                Read(_path(snapshot.deltaLog()), int(snapshot.version()), why="a read without a prepared scan")
            )
        elif "delta" in str(table.getClass().getName()):
            raise NotUnderstood(f"a scan of {table.getClass().getName()}")

    def _dml(self, node: JavaObject, name: str) -> None:
        """A target is read by the condition: other rows are kept as they are."""
        for target in self._plans.nodes(node.target()):
            index = self._index(target.relation()) if _name(target) == "LogicalRelation" else None
            if index is None:
                raise NotUnderstood(f"the target of {name}: {_name(target)}")
            mention = _mention(index, target.output())
            attributes = _attributes(target.output())
            predicate = None
            why = ""
            if name == "MergeIntoCommand":
                if int(node.notMatchedBySourceClauses().size()):
                    why = "WHEN NOT MATCHED BY SOURCE"
                else:
                    predicate = conjunction([predicate_of(node.condition(), attributes)])
                    why = "" if predicate else "the condition of MERGE names columns of the source"
            elif node.condition().isDefined():
                predicate = conjunction([predicate_of(node.condition().get(), attributes)])
            self.reads.commands.append((mention, Read(mention.table, mention.version, predicate, why=why)))

    def _overwrite(self, node: JavaObject, name: str) -> None:
        relation = node.table()
        table = relation.table()
        if str(table.getClass().getName()) != _DELTA + "catalog.DeltaTableV2":
            return
        snapshot = table.initialSnapshot()
        predicate = None
        if name == "OverwriteByExpression":
            predicate = conjunction([predicate_of(node.deleteExpr(), _attributes(relation.output()))])
        read = Read(
            _path(snapshot.deltaLog()), int(snapshot.version()), predicate, why="the rows that an INSERT replaces"
        )
        ids = frozenset(_attributes(relation.output()))
        self.reads.commands.append((Mention(read.table, read.version, ids), read))


def _name(java: JavaObject) -> str:
    return str(java.getClass().getSimpleName()).removesuffix("$")


def _path(delta_log: JavaObject) -> str:
    return str(delta_log.dataPath().toString())


def _mention(index: JavaObject, output: JavaObject) -> Mention:
    if _name(index) == "TahoeLogFileIndex":
        version = int(index.snapshotAtAnalysis().version())
    elif _name(index) == "PreparedDeltaFileIndex":
        version = int(index.preparedScan().version())
    else:
        version = int(index.version())
    return Mention(_path(index.deltaLog()), version, frozenset(_attributes(output)))


def _attributes(output: JavaObject) -> dict[int, str]:
    return {int(a.exprId().id()): str(a.name()) for a in items(output)}

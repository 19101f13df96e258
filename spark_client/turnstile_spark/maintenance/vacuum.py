"""VACUUM: removes the files that no version in use needs.

Delta refuses VACUUM of catalog-managed tables, also below the command (``VacuumCommand.gc``). Its
parts work: Delta lists the files and removes them; this module decides which files go
(docs/decisions/0030-pins.md):

    1  mark       the server reads all pins of the table and records which versions the run keeps;
                  no reader can pin another version afterwards
    2  list       files older than the retention, as Delta lists them (without hidden folders, and
                  so without ``_delta_log``); and files of promoted branches that a commit removed
    3  needed     from Delta's own snapshots: the files of the latest version after the listing; of
                  the lowest version of the kept range, and of each commit since it; of each other
                  kept version
    4  remove     each listed file that is not needed, and that no commit added meanwhile

A run that dies at any point has removed no needed file, and the next run goes on. A file that
cannot be read is an error, and the run removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F

from turnstile_spark.context import LakeContext
from turnstile_spark.delta.table import DELTA, DeltaTable, check_features
from turnstile_spark.errors import turnstile_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOUR_MS: Final = 3_600_000
#: Delta's own least retention: below it an explicit switch is needed
#: (``spark.databricks.delta.retentionDurationCheck.enabled``).
LEAST_HOURS: Final = 168
#: Paths that a result lists.
LISTED: Final = 1_000
#: Which kind a file is kept for, if it is for several: the first of these.
_KINDS: Final = ("latest", "snapshot", "clone", "reader", "transaction", "retention", "moment")
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
#: The folder below a table's location with the logs and files of its branches.
_BRANCHES: Final = "_branches"
_VECTOR: Final = "struct<storageType: string, pathOrInlineDv: string>"
_ACTIONS: Final = (
    f"add struct<path: string, deletionVector: {_VECTOR}>, cdc struct<path: string>,"
    f" remove struct<path: string, size: bigint, deletionVector: {_VECTOR}>"
)


@dataclass(frozen=True, slots=True)
class VacuumStep:
    """A step of a vacuum: ``marked`` (the server has recorded which versions are left), ``listed``
    (files that are old enough), ``compared`` (files that no version needs), ``removed``."""

    step: Literal["marked", "listed", "compared", "removed"]
    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Vacuum:
    """The result of a vacuum. ``files`` and ``bytes``: removed, or in a dry run to be removed;
    ``paths``: the first of them, relative to the table. ``kept_files`` and ``kept_bytes``: old
    files that the latest version does not have and that stay, by the kind of pin that needs them.
    ``readable_from`` and ``kept_versions``: the versions that are whole afterwards: from the one
    on, and the others.
    """

    dry_run: bool
    latest_version: int
    readable_from: int
    kept_versions: list[int]
    files: int = 0
    bytes: int = 0
    listed_files: int = 0
    kept_files: dict[str, int] = field(default_factory=dict)
    kept_bytes: dict[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)


def vacuum(
    context: LakeContext,
    spark: Any,
    name: str,
    table_id: str,
    *,
    retention_hours: float | None = None,
    dry_run: bool = False,
    lite: bool = False,
    inventory: DataFrame | None = None,
    allow_short: bool = False,
    listed: int = LISTED,
    progress: Callable[[VacuumStep], None] | None = None,
) -> Vacuum:
    """Removes files of the table ``name`` (quoted, with its catalog). See
    :meth:`turnstile_spark.lake.Table.vacuum`. ``listed``: paths that the result has at most."""
    if retention_hours is not None and retention_hours < 0:
        raise ValueError(f"retention_hours={retention_hours!r}: 0 or more")
    if lite and inventory is not None:
        raise ValueError("lite=True takes its files from the log: give either lite or an inventory")
    if context.scopes.current(spark._jsparkSession) is not None:
        text = f"vacuum of {name} inside of a transaction or snapshot: run it before or after it"
        raise turnstile_error("TURNSTILE_REFUSED", text)
    if retention_hours is not None and retention_hours < LEAST_HOURS and not (allow_short or _switched_off(spark)):
        text = (
            f"vacuum of {name} with a retention of {retention_hours} hours: files of commits that are under way for "
            f"longer would go;"
            f" allow_short=True if there are none ({LEAST_HOURS} hours or more need no switch)"
        )
        raise turnstile_error("TURNSTILE_REFUSED", text)
    retention_ms = None if retention_hours is None else int(retention_hours * HOUR_MS)
    run = _Run(context, spark, name, progress or (lambda _: None))
    left = context.api.vacuum(table_id, retention_ms, dry_run=dry_run)
    return run.run(left, dry_run=dry_run, lite=lite, inventory=inventory, at_most=listed)


def _switched_off(spark: Any) -> bool:
    """Whether Delta's own check of short retentions is off in this session."""
    return str(spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true")).lower() == "false"


class _Run:
    """One vacuum of a table."""

    def __init__(self, context: LakeContext, spark: Any, name: str, report: Callable[[VacuumStep], None]) -> None:
        self._jvm = context.jvm
        self._spark = spark
        self._name = name
        self._report = report
        self._table = DeltaTable(self._jvm, spark, name)
        check_features(self._jvm, self._table.snapshot, name, "vacuum")
        self._command = self._jvm.module(DELTA + "commands.VacuumCommand")
        self._base = str(self._table.log.dataPath())
        conf = self._jvm.new("org.apache.spark.util.SerializableConfiguration", self._table.log.newDeltaHadoopConf())
        self._conf = spark.sparkContext._jsc.broadcast(conf)

    def run(
        self, left: dict[str, Any], *, dry_run: bool, lite: bool, inventory: DataFrame | None, at_most: int
    ) -> Vacuum:
        first = int(left["leaves"]["readable_from"])
        kept = [int(v) for v in left["leaves"]["kept"]]
        self._report(VacuumStep("marked"))
        if lite:
            listed = self._removed_files(first, int(left["before"]["readable_from"]))
        else:
            listed = self._list_files(inventory, int(left["files_before_ms"]))
            if inventory is None and self._has_branches():
                listed = listed.unionByName(self._promoted_files(first, int(left["files_before_ms"])))
        listed = listed.localCheckpoint()  # before the latest version is read
        files, size = _totals(listed)
        self._report(VacuumStep("listed", files, size))
        self._table.update()
        result = Vacuum(dry_run, self._table.version, first, kept, listed_files=files)
        judged = listed.join(self._needed_paths(first, kept, left["pins"]), "path", "left").localCheckpoint()
        for row in judged.where("kind > 0").groupBy("kind").agg(F.count("*"), F.sum("length")).collect():
            result.kept_files[_KINDS[row[0]]] = row[1]
            result.kept_bytes[_KINDS[row[0]]] = row[2]
        if files and not lite and inventory is None and not judged.where("kind = 0").take(1):
            self._check_paths(int(left["files_before_ms"]))
        doomed = judged.where("kind IS NULL")
        if not dry_run:
            doomed = doomed.join(self._added_since(result.latest_version), "path", "left_anti")
        doomed = doomed.localCheckpoint()
        result.files, result.bytes = _totals(doomed)
        result.paths = [row.path for row in doomed.select("path").orderBy("path").limit(at_most).collect()]
        self._report(VacuumStep("compared", result.files, result.bytes))
        if not dry_run and result.files:
            self._delete(doomed)
            self._report(VacuumStep("removed", result.files, result.bytes))
        return result

    # -- what there is -------------------------------------------------------------------------------------------------

    def _list_files(self, inventory: DataFrame | None, before_ms: int) -> DataFrame:
        """Files that are older than ``before_ms``: ``path`` (relative, not encoded), ``full`` (as
        Delta has it), ``length``."""
        session = self._spark._jsparkSession
        none = self._jvm.module("scala.None")
        if inventory is None:
            args = (session, self._table.log, self._table.snapshot, self._conf, True, True, none)
            entries = self._python(self._command.getFilesFromFilesystem(*args).toDF())
            named = entries.withColumn("full", F.col("path")).withColumn("path", self._relative("path"))
        else:
            columns = self._table.snapshot.metadata().partitionColumns()
            entries = self._python(
                self._command.getFilesFromInventory(self._base, columns, inventory._jdf, True).toDF()
            )
            named = entries.withColumn("full", self._full("path")).withColumn("path", _decode_path("path"))
        old = named.where(~F.col("isDir") & (F.col("modificationTime") < before_ms) & F.col("path").isNotNull())
        return old.select("path", "full", "length")

    def _removed_files(self, first: int, before: int) -> DataFrame:
        """Files that commits up to version ``first`` removed, of which the log has commits."""
        versions = list(self._commits(0, first))
        if versions and versions[0][0] > max(before, 0) and versions[0][0] > 0:
            text = (
                f"a lite vacuum of {self._name}: the log begins at version {versions[0][0]}, and what was removed "
                f"before was not vacuumed;"
                " run a full one"
            )
            raise turnstile_error("TURNSTILE_REFUSED", text)
        return self._removed_by([path for _, path in versions])

    def _removed_by(self, commits: list[str]) -> DataFrame:
        """Files below the table's folder that these commits removed."""
        removed = self._actions(commits).where("remove IS NOT NULL")
        files = removed.select(
            F.col("remove.path").alias("full"), _decode_path("remove.path").alias("path"), "remove.size"
        )
        vectors = removed.select(_vector("remove.deletionVector").alias("path")).select(
            F.col("path").alias("full"), "path", F.lit(0).cast("long").alias("size")
        )
        both = files.unionByName(vectors).where("path IS NOT NULL AND NOT full RLIKE '^([A-Za-z][A-Za-z0-9+.-]*:|/)'")
        sized = both.groupBy("path", "full").agg(F.max(F.coalesce("size", F.lit(0))).alias("length"))
        return sized.select("path", self._full("full").alias("full"), "length")

    def _has_branches(self) -> bool:
        """Whether the folder of branches is there. Costs one request."""
        folder = self._jvm.new("org.apache.hadoop.fs.Path", f"{self._base}/{_BRANCHES}")
        return bool(folder.getFileSystem(self._table.log.newDeltaHadoopConf()).exists(folder))

    def _promoted_files(self, first: int, before_ms: int) -> DataFrame:
        """Files of branches, older than ``before_ms``, that commits up to version ``first``
        removed. All others in these folders belong to branches, or are in use."""
        commits = [path for _, path in self._commits(0, first)]
        removed = self._removed_by(commits).where(F.col("path").startswith(_BRANCHES + "/"))
        reader = self._spark.read.format("binaryFile").options(**self._table.options(), recursiveFileLookup="true")
        found = reader.load(f"{self._base}/{_BRANCHES}").select("path", "length", "modificationTime")
        old = found.where(F.unix_millis("modificationTime") < before_ms)
        below = old.select(F.substring("path", len(self._base.rstrip("/")) + 2, 1 << 20).alias("path"), "length")
        return removed.drop("length").join(below, "path").select("path", "full", "length")

    # -- what is needed ------------------------------------------------------------------------------------------------

    def _needed_paths(self, first: int, kept: Sequence[int], pins: list[dict[str, Any]]) -> DataFrame:
        """``path``, and the ``kind`` of pin that needs it, as a place in ``_KINDS``."""
        open_kinds = [
            pin["kind"] for pin in pins if pin["last"] is None and pin["kind"] in _KINDS and pin["first"] <= first
        ]
        range_kind = min(
            (_KINDS.index(kind) for kind in open_kinds if kind != "latest"), default=_KINDS.index("retention")
        )
        needed = self._files_of(self._table.snapshot).withColumn("kind", F.lit(0))
        since = self._files_of(self._table.at(first))
        actions = self._actions([path for _, path in self._commits(first, self._table.version)])
        since = since.unionByName(_paths(actions, "add")).unionByName(
            actions.where("cdc IS NOT NULL").select(_decode_path("cdc.path").alias("path"))
        )
        needed = needed.unionByName(since.withColumn("kind", F.lit(range_kind)))
        for version in kept:
            kinds = [
                _KINDS.index(p["kind"]) for p in pins if p["kind"] in _KINDS and p["first"] <= version == p["last"]
            ]
            kind = min(kinds, default=_KINDS.index("reader"))
            needed = needed.unionByName(self._files_of(self._table.at(version)).withColumn("kind", F.lit(kind)))
        return needed.where("path IS NOT NULL").groupBy("path").agg(F.min("kind").alias("kind"))

    def _files_of(self, snapshot: Any) -> DataFrame:
        files = self._python(snapshot.allFiles().toDF()).select(F.struct("path", "deletionVector").alias("add"))
        return _paths(files, "add")

    def _added_since(self, version: int) -> DataFrame:
        """Files that commits after ``version`` brought."""
        self._table.update()
        return _paths(self._actions([path for _, path in self._commits(version + 1, self._table.version)]), "add")

    def _commits(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """The versions from ``first`` to ``last``, as far as the log has their commits, and where
        these are."""
        if first > last:
            return
        files = self._table.log.getChangeLogFiles(first, last, self._table.catalog_table, False)
        while files.hasNext():
            each = files.next()
            yield int(each._1()), str(each._2().getPath().toString())

    def _actions(self, paths: list[str]) -> DataFrame:
        """The actions of these commits."""
        reader = self._spark.read.schema(_ACTIONS)
        options = self._table.options()
        actions: DataFrame = (
            reader.options(**options).json(paths) if paths else self._spark.createDataFrame([], _ACTIONS)
        )
        return actions

    def _check_paths(self, before_ms: int) -> None:
        """Refuses where no file of the latest version was found though it has old ones: then paths
        are compared wrongly."""
        old = self._python(self._table.snapshot.allFiles().toDF()).where(
            (F.col("modificationTime") < before_ms) & ~F.col("path").rlike("^([A-Za-z][A-Za-z0-9+.-]*:|/)")
        )
        if old.take(1):
            text = (
                f"vacuum of {self._name}: none of the files of its latest version was found in {self._base}; nothing "
                f"is removed"
            )
            raise turnstile_error("TURNSTILE_REFUSED", text)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _delete(self, doomed: DataFrame) -> None:
        session = self._spark._jsparkSession
        encoder = self._jvm.cls("org.apache.spark.sql.Encoders").STRING()
        paths = getattr(doomed.select("full")._jdf, "as")(encoder)
        parts = int(self._spark.conf.get("spark.sql.shuffle.partitions", "200"))
        self._command.delete(paths, session, self._base, self._conf, True, parts)

    def _full(self, column: str) -> Any:
        """A path below the table's folder, as a listing has it: encoded, and with the folder."""
        base = str(self._command.pathStringtoUrlEncodedString(self._base)).rstrip("/")
        return F.concat(F.lit(base + "/"), F.col(column))

    def _relative(self, column: str) -> Any:
        """The path below the table's folder, not encoded; null for a path outside it."""
        base = self._base.rstrip("/") + "/"
        full = _decode_path(column)
        return F.when(full.startswith(base), F.substring(full, len(base) + 1, 1 << 20))

    def _python(self, jdf: Any) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame as Frame

        return Frame(jdf, self._spark)


def _totals(files: DataFrame) -> tuple[int, int]:
    row = files.agg(F.count("*"), F.coalesce(F.sum("length"), F.lit(0))).first()
    assert row is not None
    return int(row[0]), int(row[1])


def _paths(files: DataFrame, action: str) -> DataFrame:
    """The data files and deletion vectors of actions; absolute paths, which are another table's, as
    they are."""
    named = files.where(f"{action} IS NOT NULL")
    vectors = named.select(_vector(f"{action}.deletionVector").alias("path")).where("path IS NOT NULL")
    return named.select(_decode_path(f"{action}.path").alias("path")).unionByName(vectors)


def _decode_path(column: str) -> Any:
    """A path of an action, which is URL-encoded, as it is in the file system."""
    return F.url_decode(F.replace(F.col(column), F.lit("+"), F.lit("%2B")))


def _vector(column: str) -> Any:
    """The file of a deletion vector; null for one that is inline, or is none."""
    kind = F.col(f"{column}.storageType")
    text = F.col(f"{column}.pathOrInlineDv")
    return F.when(kind == "u", vector_path(text)).when(kind == "p", _decode_path(f"{column}.pathOrInlineDv"))


def vector_path(text: Any) -> Any:
    """The file of a deletion vector below the table's folder: a prefix and a uuid in Z85 (Delta
    protocol, "Deletion Vectors": ``u``). An expression, because executors do not have this package;
    with lambdas, because Spark's planner takes seconds for one that repeats the arithmetic for each
    of the 20 digits.
    """
    before = F.length(text) - 20

    def with_digit(value: Any, place: Any) -> Any:
        return value * 85 + (F.position(F.substring(text, before + place, F.lit(1)), F.lit(_Z85)) - 1)

    def group(first: Any) -> Any:
        """Eight hexadecimal digits for the five of Z85 that begin at ``first``."""
        value = F.aggregate(F.sequence(first, first + 4), F.lit(0).cast("long"), with_digit)
        return F.lpad(F.lower(F.hex(value)), 8, "0")

    digits = F.array_join(F.transform(F.sequence(F.lit(1), F.lit(16), F.lit(5)), group), "")
    uuid = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    prefix = F.when(before > 0, F.concat(F.substring(text, F.lit(1), before), F.lit("/"))).otherwise("")
    return F.concat(prefix, F.lit("deletion_vector_"), uuid, F.lit(".bin"))

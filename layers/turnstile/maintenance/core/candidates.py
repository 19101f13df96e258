"""The benefit of rewriting a table: its files summed up by partition, and the work that a policy
derives from the sums. Pure.

Small files are below half of the target size: two of them always fit into one file, so a table has
few of them after a rewrite. A rewrite takes all files below the target, as Delta chooses them; the
estimates are for the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from turnstile.catalog.core.policies import HOUR_MS, Policy
from turnstile.catalog.core.windows import DAY_MS, open_until, opens_at
from turnstile.delta.core.actions import fields_of
from turnstile.maintenance.core.due import LONGEST_PAUSE_MS
from turnstile.store.core.terms import is_over

PARTITIONS: Final = 20_000
"""The limit of partitions with sums; beyond it the partitions with the fewest small files and
deleted rows are dropped."""
KEY_BYTES: Final = 4_096
"""Bytes of the values of a partition that is looked at."""
JOB_PARTITIONS: Final = 100
"""Partitions of one job: a predicate names each."""

Operation = Literal["optimize", "reorg", "vacuum"]
REWRITES: Final[tuple[Operation, ...]] = ("optimize", "reorg")
PartitionKey = tuple[str | None, ...]


class Sums(msgspec.Struct):
    """Files of a partition, or of a table: all, ``small`` ones, files ``below`` the target, files
    with deletion vectors (``vector``); ``vector_rows`` the rows of the latter where that is known,
    ``deleted_rows`` of these.
    """

    files: int = 0
    bytes: int = 0
    small_files: int = 0
    below_files: int = 0
    below_bytes: int = 0
    vector_files: int = 0
    vector_bytes: int = 0
    vector_rows: int = 0
    deleted_rows: int = 0

    @property
    def weight(self) -> tuple[int, int]:
        """How much there is to gain."""
        return self.small_files, self.deleted_rows


class Survey:
    """Sums up the files of a table in bounded memory. ``target_bytes`` of a file; ``since_ms``:
    files with a later modification time are new."""

    def __init__(self, target_bytes: int, since_ms: int) -> None:
        self.target_bytes = target_bytes
        self.since_ms = since_ms
        self.table = Sums()
        self.partitions: dict[PartitionKey, Sums] = {}
        self.new_bytes = 0
        self.left_out = 0
        self.complete = True

    def add(
        self, key: PartitionKey, size: int, modified_ms: int, deleted_rows: int | None = None, rows: int | None = None
    ) -> None:
        """Counts a file.

        Args:
            deleted_rows: of its deletion vector; None: it has none.
            rows: of a file with a deletion vector; None: not known.
        """
        self.new_bytes += size if modified_ms > self.since_ms else 0
        for each in (self._of(key, 1), self.table):
            each.files += 1
            each.bytes += size
            each.small_files += size * 2 < self.target_bytes
            if size < self.target_bytes:
                each.below_files += 1
                each.below_bytes += size
            if deleted_rows is not None:
                each.vector_files += 1
                each.vector_bytes += size
                if rows is not None:
                    each.vector_rows += rows
                    each.deleted_rows += deleted_rows

    def add_sums(self, key: PartitionKey, sums: Sums, new_bytes: int) -> None:
        """Counts files of one partition that were summed up already; ``new_bytes`` of them are
        new."""
        self.new_bytes += new_bytes
        for each in (self._of(key, sums.files), self.table):
            for name in Sums.__struct_fields__:
                setattr(each, name, getattr(each, name) + getattr(sums, name))

    def _of(self, key: PartitionKey, files: int) -> Sums:
        """The sums of a partition, to which so many files are added; of one with very long values
        they are forgotten."""
        if sum(len(value or "") for value in key) > KEY_BYTES:
            self.left_out += files
            return Sums()
        return self.partitions.get(key) or self._new(key)

    def _new(self, key: PartitionKey) -> Sums:
        if len(self.partitions) >= PARTITIONS:
            kept = sorted(self.partitions.items(), key=lambda item: item[1].weight, reverse=True)[: PARTITIONS // 2]
            self.left_out += len(self.partitions) - len(kept)
            self.partitions = dict(kept)
        sums = self.partitions[key] = Sums()
        return sums


def runs_task(table_id: str) -> str:
    """Returns the name of the coordinated task of which a table's runs are the attempts."""
    return f"rewrite.{table_id}"


# -- history -----------------------------------------------------------------------------------------------------------


class LastRun(msgspec.Struct, frozen=True):
    """The last run of an operation that did all that it was given: the table's version after it."""

    version: int
    ended_ms: int
    files: int = 0
    bytes: int = 0


class RunHistory(msgspec.Struct, frozen=True):
    """The results of earlier runs on a table, in the row of its task.

    Attributes:
        runs: the last one of each operation.
        day, spent_bytes, spent_dpu_ms: the use on the day (since 1970, UTC) of the last run.
        failures: runs that failed since one succeeded; ``reason`` why the last one did,
            ``again_ms`` when the next may begin.
    """

    runs: dict[str, LastRun] = {}
    day: int = 0
    spent_bytes: int = 0
    spent_dpu_ms: int = 0
    failures: int = 0
    reason: str = ""
    again_ms: int = 0

    @classmethod
    def unpack(cls, packed: bytes) -> RunHistory:
        """The history that ``pack`` was called on; an empty one of nothing."""
        return _DECODER.decode(packed) if packed else cls()

    def pack(self) -> bytes:
        """The task's stored result."""
        return _ENCODER.encode(self)

    def spent(self, now_ms: int) -> tuple[int, int]:
        """Returns bytes and DPU-ms that were used today."""
        return (self.spent_bytes, self.spent_dpu_ms) if self.day == now_ms // DAY_MS else (0, 0)

    def spending(self, now_ms: int, size: int, dpu_ms: int) -> RunHistory:
        """Returns the history after so much more was used."""
        before_bytes, before_ms = self.spent(now_ms)
        return msgspec.structs.replace(
            self, day=now_ms // DAY_MS, spent_bytes=before_bytes + size, spent_dpu_ms=before_ms + dpu_ms
        )


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(RunHistory)


# -- plans -------------------------------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True):
    """A partition of a job: values by column."""

    values: dict[str, str | None]
    files: int
    bytes: int


class Job(msgspec.Struct, frozen=True):
    """Work that is due.

    Attributes:
        reason: why, in plain words.
        files, bytes: estimates of the rewrite; 0 for vacuum, which has no estimate.
        where: a predicate on partition columns in Spark's SQL; None: the whole table.
        partitions: the partitions that ``where`` names.
        complete: whether no due work is left for another run.
    """

    operation: Operation
    reason: str
    files: int = 0
    bytes: int = 0
    where: str | None = None
    partitions: tuple[Part, ...] = ()
    complete: bool = True


class NotDue(msgspec.Struct, frozen=True):
    """Work that is not due, and the reason; ``files`` and ``bytes`` that it would rewrite
    otherwise."""

    operation: Operation
    reason: str
    files: int = 0
    bytes: int = 0


class Plan(msgspec.Struct, frozen=True):
    """The work that is due now, in order; ``stop_ms``: when work has to end that begins now
    (window); None: never."""

    due: tuple[Job, ...]
    not_due: tuple[NotDue, ...]
    stop_ms: int | None = None


class PartitionColumn(msgspec.Struct, frozen=True):
    """A partition column: its name, the name in file actions, and its type as Delta writes it."""

    name: str
    physical: str
    type: str


def partition_columns(metadata: Mapping[str, Any]) -> tuple[PartitionColumn, ...]:
    """Returns the partition columns of a ``metaData`` action."""
    names = list(metadata.get("partitionColumns") or [])
    by_name = {field["name"].lower(): field for field in fields_of(metadata)}
    columns = list[PartitionColumn]()
    for name in names:
        field = by_name.get(name.lower()) or {}
        physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName", name)
        columns.append(PartitionColumn(name, physical, str(field.get("type") or "string")))
    return tuple(columns)


def held_up(policy: Policy, history: RunHistory, now_ms: int) -> str:
    """Returns why nothing may run on a table now, independent of its files; empty if something
    may."""
    if not policy.enabled:
        return "off: turnstile.maintenance.enabled is false"
    if not is_over(history.again_ms, now_ms, LONGEST_PAUSE_MS):
        minutes = -(-(history.again_ms - now_ms) // 60_000)
        return f"set aside for {minutes} min after {history.failures} failures: {history.reason}"
    if policy.windows is not None and open_until(policy.windows, now_ms) is None:
        opens_ms = opens_at(policy.windows, now_ms)
        wait = f", the next opens in {-(-(opens_ms - now_ms) // 60_000)} min" if opens_ms is not None else ""
        return f"outside its windows{wait}"
    spent_bytes, spent_dpu_ms = history.spent(now_ms)
    if policy.budget_bytes is not None and spent_bytes >= policy.budget_bytes:
        return f"the budget of {policy.budget_bytes} bytes for today is used up"
    if policy.budget_dpu_hours is not None and spent_dpu_ms >= policy.budget_dpu_hours * HOUR_MS:
        return f"the budget of {policy.budget_dpu_hours:g} DPU-hours for today is used up"
    return ""


def too_soon(policy: Policy, last: LastRun | None, version: int, new_bytes: int | None) -> str:
    """Returns why a rewrite is too soon after the ``last`` one; empty if it is not. ``new_bytes``
    None: not known yet."""
    commits = version + 1 if last is None else max(0, version - last.version)
    if commits >= policy.min_commits or (commits and (new_bytes is None or new_bytes >= policy.min_bytes)):
        return ""
    return (
        f"{commits} commits and {new_bytes or 0} bytes since the last run, below {policy.min_commits} commits"
        f" and {policy.min_bytes} bytes"
    )


def plan(
    policy: Policy,
    survey: Survey,
    columns: Sequence[PartitionColumn],
    history: RunHistory,
    *,
    version: int,
    now_ms: int,
) -> Plan:
    """Returns the work that is due on a table.

    Args:
        survey: its files at ``version``, a published one.
        columns: its partition columns, in the order of the survey's keys.
    """
    due = list[Job]()
    not_due = list[NotDue]()
    general = held_up(policy, history, now_ms)
    left = None if policy.budget_bytes is None else policy.budget_bytes - history.spent(now_ms)[0]
    for operation in REWRITES:
        chosen = _candidates(policy, survey, operation)
        files = sum(each[1] for each in chosen)
        size = sum(each[2] for each in chosen)
        reason = general or ("" if getattr(policy, operation) else f"off: turnstile.maintenance.{operation} is false")
        reason = reason or too_soon(policy, history.runs.get(operation), version, survey.new_bytes)
        reason = reason or ("" if chosen else _nothing(policy, survey, operation))
        job = None if reason else _job(policy, survey, columns, operation=operation, chosen=chosen, left=left)
        if job is None:
            reason = reason or f"{size} bytes in {files} files, and {left} bytes are left of today's budget"
            not_due.append(NotDue(operation, reason, files, size))
            continue
        due.append(job)
        left = None if left is None else left - job.bytes
    vacuum = _vacuum(policy, history, general, version=version, now_ms=now_ms)
    if isinstance(vacuum, Job):
        due.append(vacuum)
    else:
        not_due.append(vacuum)
    stop_ms = None if policy.windows is None else open_until(policy.windows, now_ms)
    return Plan(tuple(due), tuple(not_due), stop_ms)


_Candidate = tuple[PartitionKey, int, int]
"""A partition, with the files and bytes that are rewritten."""


def _candidates(policy: Policy, survey: Survey, operation: Operation) -> list[_Candidate]:
    """Partitions over the thresholds, in descending order of the gain by byte."""
    chosen = list[tuple[float, _Candidate]]()
    for key, sums in survey.partitions.items():
        if operation == "optimize":
            if sums.small_files >= max(policy.min_small_files, policy.small_file_ratio * sums.files):
                gain = sums.small_files / max(1, sums.below_bytes)
                chosen.append((gain, (key, sums.below_files, sums.below_bytes)))
        elif sums.deleted_rows >= max(1, policy.deleted_row_ratio * sums.vector_rows):
            gain = sums.deleted_rows / max(1, sums.vector_bytes)
            chosen.append((gain, (key, sums.vector_files, sums.vector_bytes)))
    chosen.sort(key=lambda each: (-each[0], repr(each[1][0])))
    return [candidate for _, candidate in chosen]


def _nothing(policy: Policy, survey: Survey, operation: Operation) -> str:
    table = survey.table
    if operation == "optimize":
        return (
            f"{table.small_files} of {table.files} files are small; no partition has {policy.min_small_files} or more,"
            f" and {policy.small_file_ratio:.0%} of its files"
        )
    return (
        f"deletion vectors delete {table.deleted_rows} rows of {table.vector_rows} in {table.vector_files} files;"
        f" below {policy.deleted_row_ratio:.0%} in each partition"
    )


def _job(
    policy: Policy,
    survey: Survey,
    columns: Sequence[PartitionColumn],
    *,
    operation: Operation,
    chosen: Sequence[_Candidate],
    left: int | None,
) -> Job | None:
    """The job of the first partitions that fit into the rest of the budget; None if none does."""
    fitting = list[_Candidate]()
    size = 0
    for each in chosen:
        if (left is None or size + each[2] <= left) and len(fitting) < JOB_PARTITIONS:
            fitting.append(each)
            size += each[2]
    if not fitting:
        return None
    files = sum(each[1] for each in fitting)
    whole = not columns or (len(fitting) == len(survey.partitions) and not survey.left_out and survey.complete)
    parts = tuple(
        Part({column.name: value for column, value in zip(columns, key, strict=True)}, count, bytes_)
        for key, count, bytes_ in fitting
        if columns
    )
    where = None if whole else " OR ".join(f"({predicate(columns, key)})" for key, _, _ in fitting)
    sums = [survey.partitions[key] for key, _, _ in fitting]
    if operation == "optimize":
        small = sum(each.small_files for each in sums)
        reason = f"{small} of {sum(each.files for each in sums)} files are below {policy.target_file_bytes // 2} bytes"
    else:
        deleted = sum(each.deleted_rows for each in sums)
        rows = sum(each.vector_rows for each in sums)
        reason = f"deletion vectors delete {deleted} of {rows} rows in {files} files"
    if columns:
        reason += f", in {len(fitting)} of {len(survey.partitions)} partitions"
    complete = len(fitting) == len(chosen) and not survey.left_out and survey.complete
    return Job(operation, reason, files, size, where, parts, complete)


def _vacuum(policy: Policy, history: RunHistory, general: str, *, version: int, now_ms: int) -> Job | NotDue:
    last = history.runs.get("vacuum")
    reason = general or ("" if policy.vacuum else "off: turnstile.maintenance.vacuum is false")
    if (
        not reason
        and last is not None
        and not is_over(last.ended_ms + policy.vacuum_interval_ms, now_ms, policy.vacuum_interval_ms)
    ):
        hours = -(-(last.ended_ms + policy.vacuum_interval_ms - now_ms) // HOUR_MS)
        reason = f"the last one was less than its interval ago; again in {hours} h"
    if not reason and last is not None and version <= last.version:
        reason = "no commit since the last one"
    if reason:
        return NotDue("vacuum", reason)
    return Job("vacuum", "it never ran" if last is None else f"{version - last.version} commits since the last one")


# -- predicates --------------------------------------------------------------------------------------------------------

_SQL: Final = {
    "string": "STRING", "long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT", "float": "FLOAT",
    "double": "DOUBLE", "boolean": "BOOLEAN", "binary": "BINARY", "date": "DATE", "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\(\d{1,2},\s?-?\d{1,2}\)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.:+-]*")


def predicate(columns: Iterable[PartitionColumn], key: PartitionKey) -> str:
    """Returns the predicate in Spark's SQL that is true for the files of a partition."""
    return " AND ".join(_equals(column, value) for column, value in zip(columns, key, strict=True))


def _equals(column: PartitionColumn, value: str | None) -> str:
    name = f"`{column.name.replace('`', '``')}`"
    if value is None or value == "":  # the protocol: an empty string is null
        return f"{name} IS NULL"
    sql = column.type.upper() if _DECIMAL.fullmatch(column.type) else _SQL.get(column.type, "STRING")
    plain = _PLAIN.fullmatch(value) is not None
    literal = f"'{value}'" if plain else f"CAST(unhex('{value.encode(errors='surrogatepass').hex()}') AS STRING)"
    return f"{name} = {literal}" if sql == "STRING" else f"{name} = CAST({literal} AS {sql})"

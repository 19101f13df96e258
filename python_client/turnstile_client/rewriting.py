"""Puts small files together, and removes deleted rows from files, without an engine.

    1  plan      the files of the latest version
    2  choose    bins of files (``core.rewrites``), each of one partition
    3  write     the rows of a bin into new files, a batch at a time
    4  commit    the bin alone, with ``dataChange`` false, as the version after the latest known one

If another commit took that version, its content is compared with the bin. The same new files are
proposed for the next version, unless the commit removed a file of the bin or changed the table's
definition: then the new files are removed, and the bin is planned anew. So a rewrite never undoes
another commit, and never fails an append.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from turnstile_client.core.filters import Where
from turnstile_client.core.rewrites import Bin, Changes, File, purged_bins, small_bins, within
from turnstile_client.errors import Conflict, DataMismatch, OutcomeUnknown, Unsupported
from turnstile_client.files import Writer, target_bytes
from turnstile_client.reading import FileReader, is_within, partition_filter
from turnstile_client.steps import TableSteps
from turnstile_client.storage import Storage
from turnstile_http.maintenance import Progress, Rewrite
from turnstile_http.proposals import Proposal
from turnstile_rows import commits
from turnstile_rows.definitions import Definition, check_rewritable
from turnstile_rows.tracking import assigns_row_ids, row_tracking, with_row_ids

#: How often bins are planned anew because of other commits.
ATTEMPTS: Final = 5
#: How often a bin is proposed for a later version, after others were faster.
_REBASES: Final = 50
#: Commits of others that are compared with a bin; after more it is planned anew.
_MOST_BEHIND: Final = 500
_BY_PARTITIONS: Final = "files are chosen by partitions"

Report = Callable[[Progress], None]
Partitions = Sequence[Mapping[str, str | None]]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of :meth:`turnstile_client.table.Table.optimize`, or of ``reorg``
    (``purges``). Raises :class:`ValueError` and :class:`TypeError`."""

    where: Where | None = None
    partitions: Partitions = ()
    target_bytes: int | None = None
    purges: bool = False
    gradual: bool = False
    attempts: int = ATTEMPTS
    progress: Report | None = None

    def __post_init__(self) -> None:
        for what, number in (("target_bytes", self.target_bytes), ("attempts", self.attempts)):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{what}={number!r}: a whole number, at least 1")
        if isinstance(self.where, str):
            raise TypeError(f"where={self.where!r}: conditions are a list, such as [('day', '=', date(2026, 1, 31))]")

    def report(self, progress: Progress) -> None:
        """Calls ``progress``, if there is one."""
        if self.progress is not None:
            self.progress(progress)

    def bytes_in(self, definition: Definition) -> int:
        """The size of new files of a table."""
        return self.target_bytes or target_bytes(definition)


def rewrite(table: TableSteps, options: Options) -> Rewrite:
    """Puts small files together, or removes deleted rows from files. See
    :meth:`turnstile_client.table.Table.optimize`."""
    return _Run(table, options).run()


def load_rewritable(table: TableSteps, table_id: str = "") -> tuple[Any, Definition]:
    """Returns the table as the catalog has it, and its definition. Raises :class:`Unsupported` for
    a table that cannot be rewritten, and :class:`Conflict` where it has another id than
    ``table_id``."""
    state = table.load()
    if state.pinned:
        raise Unsupported(f"{table.name}: a clone of a Delta table is read-only")
    if table_id not in ("", state.table_id):
        raise Conflict(f"{table.name}: another table has this name now", None)
    definition = Definition.of_loaded(state.metadata)
    check_rewritable(definition)
    return state, definition


class _Round:
    """The bins of one plan, and what other commits changed since. ``files`` are all of the chosen
    partitions."""

    def __init__(self, changes: Changes, definition: Definition, files: Sequence[File], bins: Sequence[Bin]) -> None:
        self.changes = changes
        self.definition = definition
        self.files = files
        self.bins = bins


class _Run:
    """One rewrite of a table."""

    def __init__(self, table: TableSteps, options: Options) -> None:
        self._table = table
        self._options = options
        self._table_id = ""
        self._storage: Storage | None = None

    def run(self) -> Rewrite:
        """Carries it out: rounds of planning, until no bin is left or ``attempts`` rounds lost
        one."""
        at = self._plan(None)
        attempts = self._options.attempts
        result = Rewrite(at.changes.version, len(at.files), _size(at.files))
        pending = frozenset[str]().union(*(each.paths for each in at.bins))
        result.skipped_files = len(at.files) - len(pending)
        self._options.report(Progress("planned", len(at.bins), len(pending), sum(each.size for each in at.bins)))
        while at.bins and attempts:
            lost = 0
            for each in at.bins:
                if self._rewrite(at, each, result):
                    pending -= each.paths
                else:
                    lost += 1
            result.lost_bins += lost
            attempts -= lost > 0
            at = self._plan(pending)
        result.latest_version = at.changes.version
        result.files_after = len(at.files)
        result.bytes_after = _size(at.files)
        result.left_files += sum(len(each.files) for each in at.bins)
        return result

    def _plan(self, pending: frozenset[str] | None) -> _Round:
        """The bins of the table as it is now. ``pending``: only of these files; None: of all."""
        table = self._table
        options = self._options
        state, definition = load_rewritable(table, self._table_id)
        self._table_id = state.table_id
        self._storage = table.storage_of(state.table_id, state.location)
        filter = partition_filter(options.where, definition, _BY_PARTITIONS)
        version, definition, files = table.plan_files(state.table_id, filter, None)
        check_rewritable(definition)
        if assigns_row_ids(definition):
            table.high_water(state.table_id)  # raises before anything is written
        filter = partition_filter(options.where, definition, _BY_PARTITIONS)
        if filter is not None:
            files = [file for file in files if is_within(file, filter, definition)]
        if options.partitions:
            files = within(files, [_action_values(each, definition) for each in options.partitions])
        target = options.bytes_in(definition)
        chosen = [file for file in files if pending is None or Bin((file,)).paths <= pending]
        bins = purged_bins(chosen, target) if options.purges else small_bins(chosen, target, gradual=options.gradual)
        if version > state.tail.latest:  # a commit came before the plan
            state = table.load()
        timestamp = max((commit.timestamp for commit in state.tail.commits), default=0)
        return _Round(Changes(version, timestamp), definition, files, bins)

    def _rewrite(self, at: _Round, each: Bin, result: Rewrite) -> bool:
        """Whether a bin was committed. False: another commit came in between."""
        version = None
        if at.changes.leave(each):
            writer = self._write(at.definition, each)
            try:
                written = sum(file.size for file in writer.files)
                self._options.report(Progress("rewritten", 1, len(writer.files), written))
                version = self._commit(at, each, writer)
            except OutcomeUnknown:
                raise  # the files may be the table's
            except Exception:
                writer.discard()
                raise
            if version is None:
                writer.discard()
        if version is None:
            self._options.report(Progress("lost", 1, len(each.files), each.size))
            return False
        result.versions.append(version)
        result.rewritten_files += len(each.files)
        result.rewritten_bytes += each.size
        result.written_files += len(writer.files)
        result.written_bytes += written
        self._options.report(Progress("committed", 1, len(each.files), each.size, version))
        return True

    def _write(self, definition: Definition, each: Bin) -> Writer:
        """Writes the new files of a bin, which are not visible; removes them if that does not
        succeed."""
        assert self._storage is not None
        tracking = row_tracking(definition)
        if tracking is not None:
            definition = with_row_ids(definition, tracking)
        reader = FileReader(self._storage, definition, definition.schema.names, None, tracking)
        with Writer(self._storage, definition, self._options.bytes_in(definition)) as writer:
            for batch in reader.rows(each.files):
                writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=definition.schema))
        _check_rows(each, sum(file.rows for file in writer.files), writer)
        values = each.files[0]["partitionValues"]
        writer.files = [replace(file, partition_values=values) for file in writer.files]
        return writer

    def _commit(self, at: _Round, each: Bin, writer: Writer) -> int | None:
        """The version of the commit; None where another commit is in the way."""
        assert self._storage is not None
        table = self._table
        id = str(uuid.uuid4())
        for _ in range(_REBASES):
            base = at.changes.version
            now = max(table.now_ms(), at.changes.timestamp + 1)
            high_water = table.high_water(self._table_id) if assigns_row_ids(at.definition) else None
            content = commits.rewrite(
                id,
                now,
                base,
                files=writer.files,
                removed=each.files,
                purges=self._options.purges,
                high_water=high_water,
            )
            proposal = Proposal(self._table_id, base + 1, id, table.body_of(self._storage, base + 1, content))
            try:
                table.propose(proposal, writer, is_ticket=False, keeps_files=True)
            except Conflict as conflict:
                if not self._read_changes(at.changes, conflict):
                    at.changes.is_stale = True
                if not at.changes.leave(each):
                    return None
                continue
            at.changes.version = base + 1
            at.changes.timestamp = now
            return base + 1
        return None

    def _read_changes(self, changes: Changes, conflict: Conflict) -> bool:
        """Adds the commits that were faster; False where they are not known, or are too many."""
        assert self._storage is not None
        refusal: Any = conflict.__cause__
        latest = conflict.latest
        if latest is None or not changes.version < latest <= changes.version + _MOST_BEHIND:
            return False
        contents = {int(each["version"]): each.get("content") for each in refusal.body.get("winners") or ()}
        published = int(refusal.body.get("published_to", -1))
        for version in range(changes.version + 1, latest + 1):
            content = contents.get(version)
            if content is None and version > published:
                return False
            changes.add(content or self._storage.read_commit(version))
        return True


def _check_rows(each: Bin, rows: int, writer: Writer) -> None:
    """Raises Unsupported, and removes the new files, unless they have as many rows as the files of
    the bin by their statistics."""
    counts: list[Any] = [file.get("records") for file in each.files]
    deleted = sum((file.get("deletionVector") or {}).get("cardinality") or 0 for file in each.files)
    if None not in counts:
        expected = sum(counts) - deleted
        if rows != expected:
            writer.discard()
            raise Unsupported(
                f"{len(each.files)} files have {expected} rows by their statistics, and {rows} were read: look at the "
                f"table with 'turnstile verify'"
            )


def _size(files: Sequence[File]) -> int:
    return sum(int(file["size"]) for file in files)


def _action_values(partition: Mapping[str, str | None], definition: Definition) -> dict[str, str | None]:
    """A partition by the names that actions have. Raises DataMismatch for other columns."""
    if partition.keys() != set(definition.partitions):
        columns = ", ".join(definition.partitions) or "no columns"
        raise DataMismatch(f"partitions: {dict(partition)!r} names other columns; the table has {columns}")
    names = dict(zip(definition.schema.names, definition.stored_schema.names, strict=True))
    return {names.get(name, name): value for name, value in partition.items()}

"""A table: append, overwrite and read. Source: docs/api.md, "Commits" (tickets) and "Planning"."""

from __future__ import annotations

import importlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from turnstile_client.core.filters import Filter, Where
from turnstile_client.errors import ApiError, Conflict, OutcomeUnknown, Unsupported
from turnstile_client.files import Writer, target_bytes
from turnstile_client.history import history_of
from turnstile_client.reading import FileReader, columns_of, is_within, partition_filter
from turnstile_client.rewriting import ATTEMPTS, Options, Partitions, Report, load_rewritable, rewrite
from turnstile_client.rows import RowAppends
from turnstile_client.steps import TableSteps, is_inline
from turnstile_client.storage import Storage
from turnstile_http.api import Api
from turnstile_http.maintenance import Rewrite
from turnstile_http.proposals import Proposal
from turnstile_rows import commits
from turnstile_rows.definitions import Definition, check_appendable, check_overwritable, check_readable
from turnstile_rows.tracking import row_tracking

log = logging.getLogger("turnstile_client")

#: How often an append by a staged file is written for another version, after others were faster.
_REBASES: Final = 30


class Table(RowAppends):
    """A Delta table of a server, by its name. Nothing is kept between two calls but its identity
    and its storage. Not for several threads at once."""

    def __init__(self, api: Api, name: str, storage: Callable[[str, str], Storage], deadline: float) -> None:
        super().__init__(api, deadline)
        self.name = name
        self._steps = TableSteps(api, name, storage, deadline)

    def __repr__(self) -> str:
        return f"Table({self._api.catalog}.{self.name})"

    def version(self) -> int:
        """The latest version. Raises :class:`ApiError`."""
        return int(self._steps.load().tail.latest)

    def schema(self) -> pa.Schema:
        """The columns of the latest version. Raises :class:`ApiError`, and :class:`Unsupported` for
        a type that is not known."""
        return Definition.of_loaded(self._steps.load().metadata).schema

    def history(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest commits, the newest first: ``version``, ``timestamp`` in ms, ``operation``,
        ``parameters``, ``metrics``, ``engine`` and ``id`` of each. Raises :class:`ApiError` and
        :class:`StorageFailure`.
        """
        state = self._steps.load()
        return history_of(self._api, state.table_id, self._steps.storage_of(state.table_id, state.location), limit)

    def to_polars(
        self, columns: Sequence[str] | None = None, *, where: Where | None = None, version: int | None = None
    ) -> Any:
        """The rows as a data frame of Polars. Raises as :meth:`scan`, and :class:`Unsupported`
        where Polars is not installed."""
        try:
            polars: Any = importlib.import_module("polars")
        except ImportError:
            raise Unsupported("Polars is not installed: pip install polars, or use read()") from None
        return polars.from_arrow(self.read(columns, where=where, version=version))

    def append(self, data: Any, *, id: str | None = None) -> int:
        """Adds rows. Concurrent appends do not conflict.

        Args:
            data: as :func:`turnstile_client.files.stream_of` takes it. Columns are found by name;
                missing ones become null.
            id: of this append, such as the id of the message with the rows. Of all appends with one
                id at most one is committed, for as long as the server remembers it (30 days).

        Returns:
            The version that has the rows: of the first append with this id, if there was one.

        Raises:
            DataMismatch: the data does not fit the table.
            Unsupported: the table needs a feature that this client does not have; or it tracks
                rows, and the append has too many files for one request.
            Conflict: a change of the table forbids the append.
            OutcomeUnknown: it is unknown whether the rows were added; append again with the same
                id.
            ApiError: the server refused, or cannot be reached.
        """
        state = self._steps.load()
        if id and (earlier := self._earlier(state, id)) is not None:
            return earlier
        id = id or str(uuid.uuid4())
        definition = Definition.of_loaded(state.metadata)
        check_appendable(definition)
        base = int(state.tail.latest)
        storage = self._steps.storage_of(state.table_id, state.location)
        writer = self._steps.write(data, definition, storage)
        if not writer.files:
            return base
        content = commits.append(id, self._steps.now_ms(), base, files=writer.files, definition=definition)
        if not is_inline(content):
            if definition.is_row_tracked:
                writer.discard()
                raise Unsupported(
                    f"{self.name}: the server assigns the row ids of this table, and does so for commits of a limited "
                    f"size; this one has {len(content.encode())} bytes: append the rows in parts"
                )
            return self._append_staged(state.table_id, storage, writer, definition=definition, id=id, base=base)
        body = {"version": None, "base": base, "inline": {"content": content}}
        answer = self._steps.propose(Proposal(state.table_id, base + 1, id, body), writer, is_ticket=True)
        version = int(answer["version"])
        if not self._is_ours(answer, storage, writer):
            writer.discard()  # an earlier append with this id was committed
        return version

    def overwrite(self, data: Any, *, where: Where | None = None, id: str | None = None) -> int:
        """Replaces all rows, or the rows in the partitions for which ``where`` is true.

        Args:
            data: as for :meth:`append`; with ``where`` every row has to satisfy it.
            where: conditions on partition columns (:mod:`turnstile_client.core.filters`).
            id: of this transaction; a random one by default.

        Returns:
            The version that has the rows.

        Raises:
            Conflict: another commit came first. Nothing was changed; read again and decide.
            DataMismatch, Unsupported, OutcomeUnknown, ApiError: as :meth:`append`.
        """
        id = id or str(uuid.uuid4())
        state = self._steps.load()
        definition = Definition.of_loaded(state.metadata)
        check_overwritable(definition)
        filter = partition_filter(where, definition, "rows of a file cannot be replaced in part by this client")
        storage = self._steps.storage_of(state.table_id, state.location)
        version, _, planned = self._steps.plan_files(state.table_id, filter, None)
        removed = [file for file in planned if filter is None or is_within(file, filter, definition)]
        writer = self._steps.write(data, definition, storage, filter)
        shown = None if filter is None else filter.sql
        content = commits.overwrite(
            id,
            self._steps.now_ms(),
            version,
            files=writer.files,
            removed=removed,
            partitions=definition.partitions,
            where=shown,
        )
        body = self._steps.body_of(storage, version + 1, content)
        proposal = Proposal(state.table_id, version + 1, id, body)
        return int(self._steps.propose(proposal, writer, is_ticket=False)["version"])

    def delete(self, where: Where) -> int:
        """Removes the rows that ``where`` is true of. A file of which all rows are removed is
        removed whole; others are written anew, one after the other, each in memory.

        Args:
            where: conditions on any columns (:mod:`turnstile_client.core.filters`).

        Returns:
            The version without the rows; the latest one where there were none.

        Raises:
            Conflict: another commit came first. Nothing was changed; decide again.
            Unsupported: also of a table with a change feed (``delta.enableChangeDataFeed``), where
                files would have to be written anew.
            DataMismatch, OutcomeUnknown, ApiError: as :meth:`append`.
        """
        id = str(uuid.uuid4())
        state = self._steps.load()
        definition = Definition.of_loaded(state.metadata)
        check_overwritable(definition)
        filter = Filter(where, definition.fields, definition.schema)
        version, definition, planned = self._steps.plan_files(state.table_id, filter, None)
        check_overwritable(definition)
        filter = Filter(where, definition.fields, definition.schema)
        rewrites = not filter.columns <= set(definition.partitions)
        if rewrites and definition.is_set("delta.enableChangeDataFeed"):
            raise Unsupported(
                "the table has a change feed, for which this client writes no files: use an engine that does, such as "
                "Spark"
            )
        storage = self._steps.storage_of(state.table_id, state.location)
        reader = FileReader(storage, definition, definition.schema.names, None)
        removed = []
        with Writer(storage, definition, target_bytes(definition)) as writer:
            for file in planned:
                if not rewrites:
                    removed += [file] if is_within(file, filter, definition) else []
                    continue
                rows = pa.Table.from_batches(reader.rows([file]), reader.schema)
                kept = rows.filter(~pc.coalesce(filter.expression, pc.scalar(value=False)))
                if kept.num_rows == rows.num_rows:
                    continue
                removed.append(file)
                for batch in kept.to_batches():
                    writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=definition.schema))
        if not removed:
            return version
        shown = filter.sql or str(where)
        content = commits.delete(id, self._steps.now_ms(), version, files=writer.files, removed=removed, where=shown)
        body = self._steps.body_of(storage, version + 1, content)
        proposal = Proposal(state.table_id, version + 1, id, body)
        return int(self._steps.propose(proposal, writer, is_ticket=False)["version"])

    def optimize(
        self,
        where: Where | None = None,
        *,
        partitions: Partitions = (),
        target_bytes: int | None = None,
        gradual: bool = False,
        attempts: int = ATTEMPTS,
        progress: Report | None = None,
    ) -> Rewrite:
        """Puts files below ``target_bytes`` together, and changes no row. The replaced files stay
        for readers of old versions, until VACUUM.

        Args:
            where: conditions on partition columns (:mod:`turnstile_client.core.filters`).
            partitions: only these, by their values in the log.
            target_bytes: size of the files that are written; by default ``delta.targetFileSize`` of
                the table, or 128 MiB.
            gradual: leave a file that is more than twice as large as the smaller files of its
                partition together, so that each row is written a few times only, however often this
                is called.
            attempts: how often files that other commits changed meanwhile are planned anew.
            progress: called with each step.

        Returns:
            Files and bytes before and after, and the committed versions.

        Raises:
            Unsupported: the table is clustered, or needs a feature that this client does not have.
            DataMismatch: ``where`` names other columns.
            OutcomeUnknown: it is unknown whether one of the commits was made. The rows are the same
                in any case.
            ApiError, StorageFailure: commits that were made before stay.
        """
        options = Options(
            where=where,
            partitions=partitions,
            target_bytes=target_bytes,
            gradual=gradual,
            attempts=attempts,
            progress=progress,
        )
        return rewrite(self._steps, options)

    def reorg(
        self,
        where: Where | None = None,
        *,
        partitions: Partitions = (),
        target_bytes: int | None = None,
        attempts: int = ATTEMPTS,
        progress: Report | None = None,
    ) -> Rewrite:
        """Rewrites the files with deletion vectors, without the deleted rows. Arguments, result and
        errors as :meth:`optimize`."""
        options = Options(
            where=where,
            partitions=partitions,
            target_bytes=target_bytes,
            purges=True,
            attempts=attempts,
            progress=progress,
        )
        return rewrite(self._steps, options)

    def check_rewritable(self) -> str:
        """Returns the table's id. Raises :class:`Unsupported` for a table that :meth:`optimize`
        refuses, and :class:`ApiError`."""
        state, definition = load_rewritable(self._steps)
        row_tracking(definition)
        return str(state.table_id)

    def read(
        self, columns: Sequence[str] | None = None, *, where: Where | None = None, version: int | None = None
    ) -> pa.Table:
        """The rows of a version, by default the latest, that ``where`` is true of; in no particular
        order. Raises as :meth:`scan`."""
        return self.scan(columns, where=where, version=version).read_all()

    def scan(
        self, columns: Sequence[str] | None = None, *, where: Where | None = None, version: int | None = None
    ) -> pa.RecordBatchReader:
        """Like :meth:`read`, a batch at a time: for data that does not fit into memory, and for
        DuckDB and Polars.

        Raises:
            DataMismatch: ``columns`` or ``where`` name a missing column.
            Unsupported: the table, or a file of it, needs a feature that this client does not have.
            ApiError: the server refused, or cannot be reached.
        """
        state = self._steps.load()
        definition = Definition.of_loaded(state.metadata)
        filter = None if where is None else Filter(where, definition.fields, definition.schema)
        _, definition, files = self._steps.plan_files(state.table_id, filter, version)
        check_readable(definition)
        if where is not None:
            # by the columns of that version
            filter = Filter(where, definition.fields, definition.schema, definition.stored_schema)
        names = columns_of(columns, definition)
        reader = FileReader(self._steps.storage_of(state.table_id, state.location), definition, names, filter)
        return pa.RecordBatchReader.from_batches(reader.schema, reader.rows(files))

    def outcome(self, id: str) -> int | None:
        """The version of the commit with this id; None if no commit that the server remembers has
        it. It may still come, as long as an attempt to make it is under way."""
        return self._steps.version_of(self._steps.load(), id)

    # -- steps of an append --------------------------------------------------------------------------------------------

    def _earlier(self, state: Any, id: str) -> int | None:
        """The version of an earlier append with this id: to a proposal after the version of
        ``state`` the server compares only later commits."""
        try:
            return self._steps.version_of(state, id)
        except ApiError as e:
            message = f"{self.name}: an earlier append with the id {id} could not be looked for: {e}"
            raise OutcomeUnknown(message, self.name, id) from e

    def _append_staged(
        self, table_id: str, storage: Storage, writer: Writer, *, definition: Definition, id: str, base: int
    ) -> int:
        """Commits an append that is too large for a request: it is written for one version after
        the other until one is free. Its rows depend on no other commit except on one that changes
        the table's definition, which is looked for each time.
        """
        for _ in range(_REBASES):
            content = commits.append(id, self._steps.now_ms(), base, files=writer.files, definition=definition)
            proposal = Proposal(table_id, base + 1, id, self._steps.body_of(storage, base + 1, content))
            try:
                return int(self._steps.propose(proposal, writer, is_ticket=False, keeps_files=True)["version"])
            except Conflict:
                state = self._steps.load()
                if state.table_id != table_id or Definition.of_loaded(state.metadata) != definition:
                    writer.discard()
                    raise
                earlier = self._earlier(state, id)
                if earlier is not None:
                    if not self._is_ours({"version": earlier}, storage, writer):
                        writer.discard()
                    return earlier
                base = state.tail.latest
        writer.discard()
        raise Conflict(f"{self.name}: others were faster {_REBASES} times", base)

    def _is_ours(self, answer: Mapping[str, Any], storage: Storage, writer: Writer) -> bool:
        """Whether the commit has the files of this call, and not of an earlier append with the same
        id. If it is unknown, they are kept: files that no commit names do no harm."""
        content = answer.get("content")
        if content is None:
            try:
                content = storage.read_commit(int(answer["version"]))
            except OSError as e:
                log.warning(
                    "turnstile_client: %s: which files version %s has is not known: %s", self.name, answer["version"], e
                )
                return True
        return writer.files[0].path in commits.adds(content)

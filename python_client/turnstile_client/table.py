"""A table: append, overwrite and read. Source: docs/api.md, "Commits" (tickets) and "Planning"."""

from __future__ import annotations

import importlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from turnstile_client.core.filters import Filter, Where
from turnstile_client.errors import ApiError, Conflict, DataMismatch, OutcomeUnknown, Unsupported
from turnstile_client.files import Writer, batches, stream_of, target_bytes
from turnstile_client.history import history_of
from turnstile_client.reading import FileReader, columns_of, is_within
from turnstile_client.rows import RowAppends
from turnstile_client.storage import Storage
from turnstile_http import proposals
from turnstile_http.api import Api
from turnstile_http.http import path
from turnstile_http.proposals import Proposal, ratify
from turnstile_rows import commits
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import (
    Definition,
    check_appendable,
    check_overwritable,
    check_readable,
    columns_with_default,
)

log = logging.getLogger("turnstile_client")

#: Bytes of a commit that travels in the request; a larger one goes by a staged file.
INLINE_BYTES: Final = 200_000
_PAGE: Final = 5000
#: How often an append by a staged file is written for another version, after others were faster.
_REBASES: Final = 30
#: How often a plan is begun whose pages end before the last one.
_PLANS: Final = 3
_CONFLICTS: Final = frozenset({"CommitVersionConflict", "CommitConflict", "ConcurrentChange"})


class Table(RowAppends):
    """A Delta table of a server, by its name. Nothing is kept between two calls but its identity
    and its storage. Not for several threads at once."""

    def __init__(self, api: Api, name: str, storage: Callable[[str, str], Storage], deadline: float) -> None:
        super().__init__(api, deadline)
        self.name = name
        self._open = storage
        self._storage: tuple[str, Storage] | None = None

    def __repr__(self) -> str:
        return f"Table({self._api.catalog}.{self.name})"

    def version(self) -> int:
        """The latest version. Raises :class:`ApiError`."""
        return int(self._load().tail.latest)

    def schema(self) -> pa.Schema:
        """The columns of the latest version. Raises :class:`ApiError`, and :class:`Unsupported` for
        a type that is not known."""
        return Definition.of_loaded(self._load().metadata).schema

    def history(self, limit: int = 20) -> list[dict[str, Any]]:
        """The newest commits, the newest first: ``version``, ``timestamp`` in ms, ``operation``,
        ``parameters``, ``metrics``, ``engine`` and ``id`` of each. Raises :class:`ApiError` and
        :class:`StorageFailure`.
        """
        state = self._load()
        return history_of(self._api, state.table_id, self._storage_of(state.table_id, state.location), limit)

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
        state = self._load()
        if id and (earlier := self._earlier(state, id)) is not None:
            return earlier
        id = id or str(uuid.uuid4())
        definition = Definition.of_loaded(state.metadata)
        check_appendable(definition)
        base = int(state.tail.latest)
        storage = self._storage_of(state.table_id, state.location)
        writer = self._write(data, definition, storage)
        if not writer.files:
            return base
        content = commits.append(id, self._now_ms(), base, files=writer.files, definition=definition)
        if len(content.encode()) > INLINE_BYTES:
            if definition.is_row_tracked:
                writer.discard()
                raise Unsupported(
                    f"{self.name}: the server assigns the row ids of this table, and does so for commits of "
                    f"{INLINE_BYTES} bytes at most; this one has {len(content.encode())}: append the rows in parts"
                )
            return self._append_staged(state.table_id, storage, writer, definition=definition, id=id, base=base)
        body = {"version": None, "base": base, "inline": {"content": content}}
        answer = self._propose(Proposal(state.table_id, base + 1, id, body), writer, is_ticket=True)
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
        state = self._load()
        definition = Definition.of_loaded(state.metadata)
        check_overwritable(definition)
        filter = None if where is None else Filter(where, definition.fields, definition.schema)
        if filter is not None and not filter.columns <= set(definition.partitions):
            others = ", ".join(sorted(filter.columns - set(definition.partitions)))
            raise DataMismatch(
                f"where: {others} is no partition column; rows of a file cannot be replaced in part by this client"
            )
        storage = self._storage_of(state.table_id, state.location)
        version, _, planned = self._plan_files(state.table_id, filter, None)
        removed = [file for file in planned if filter is None or is_within(file, filter, definition)]
        writer = self._write(data, definition, storage, filter)
        shown = None if filter is None else filter.sql
        content = commits.overwrite(
            id,
            self._now_ms(),
            version,
            files=writer.files,
            removed=removed,
            partitions=definition.partitions,
            where=shown,
        )
        body = self._body(storage, version + 1, content)
        return int(self._propose(Proposal(state.table_id, version + 1, id, body), writer, is_ticket=False)["version"])

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
        state = self._load()
        definition = Definition.of_loaded(state.metadata)
        check_overwritable(definition)
        filter = Filter(where, definition.fields, definition.schema)
        version, definition, planned = self._plan_files(state.table_id, filter, None)
        check_overwritable(definition)
        filter = Filter(where, definition.fields, definition.schema)
        rewrites = not filter.columns <= set(definition.partitions)
        if rewrites and definition.is_set("delta.enableChangeDataFeed"):
            raise Unsupported(
                "the table has a change feed, for which this client writes no files: use an engine that does, such as "
                "Spark"
            )
        storage = self._storage_of(state.table_id, state.location)
        reader = FileReader(storage, definition, definition.schema.names, None)
        writer = Writer(storage, definition, target_bytes(definition))
        removed = []
        try:
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
            writer.close()
        except BaseException:
            writer.discard()
            raise
        if not removed:
            return version
        shown = filter.sql or str(where)
        content = commits.delete(id, self._now_ms(), version, files=writer.files, removed=removed, where=shown)
        body = self._body(storage, version + 1, content)
        return int(self._propose(Proposal(state.table_id, version + 1, id, body), writer, is_ticket=False)["version"])

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
        state = self._load()
        definition = Definition.of_loaded(state.metadata)
        filter = None if where is None else Filter(where, definition.fields, definition.schema)
        _, definition, files = self._plan_files(state.table_id, filter, version)
        check_readable(definition)
        if where is not None:
            # by the columns of that version
            filter = Filter(where, definition.fields, definition.schema, definition.stored_schema)
        names = columns_of(columns, definition)
        reader = FileReader(self._storage_of(state.table_id, state.location), definition, names, filter)
        return pa.RecordBatchReader.from_batches(reader.schema, reader.rows(files))

    def outcome(self, id: str) -> int | None:
        """The version of the commit with this id; None if no commit that the server remembers has
        it. It may still come, as long as an attempt to make it is under way."""
        return self._version_of(self._load(), id)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        namespace, _, table = self.name.rpartition(".")
        try:
            return self._api.load(namespace, table)
        except ApiError as e:
            if e.type == "NoSuchTable" and (format := self._format()) is not None:
                raise Unsupported(
                    f"{self.name} is no Delta table but one of {format}: read it with a client of that format "
                    f"(docs/iceberg.md)"
                ) from e
            raise

    def _version_of(self, state: Any, id: str) -> int | None:
        found = proposals.outcome_of(self._api, state.table_id, max(state.tail.latest, 1), id)
        return found.version if found.outcome == "ratified" else None

    def _earlier(self, state: Any, id: str) -> int | None:
        """The version of an earlier append with this id: to a proposal after the version of
        ``state`` the server compares only later commits."""
        try:
            return self._version_of(state, id)
        except ApiError as e:
            message = f"{self.name}: an earlier append with the id {id} could not be looked for: {e}"
            raise OutcomeUnknown(message, self.name, id) from e

    def _format(self) -> str | None:
        """The catalog's entry under the name of the table; None if there is none, or the caller may
        not see it."""
        levels = self.name.split(".")
        route = path(
            "v1", "catalogs", self._api.catalog, "namespaces", ".".join(levels[:-1]), "tables", levels[-1], "entry"
        )
        try:
            return str(self._api.http.call("entry", "GET", route).get("format") or "another kind")
        except ApiError:
            return None

    def _storage_of(self, table_id: str, location: str) -> Storage:
        if self._storage is None or self._storage[0] != table_id:
            self._storage = (table_id, self._open(table_id, location))
        return self._storage[1]

    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def _write(self, data: Any, definition: Definition, storage: Storage, filter: Filter | None = None) -> Writer:
        """Writes the files of the data; removes them if that does not succeed."""
        reader = stream_of(data)
        conformer = Conformer(reader.schema, definition.schema, columns_with_default(definition))
        writer = Writer(storage, definition, target_bytes(definition))
        try:
            for batch in batches(reader):
                for rows in conformer.conform(batch):
                    if (
                        filter is not None
                        and pa.Table.from_batches([rows]).filter(filter.expression).num_rows < rows.num_rows
                    ):
                        raise DataMismatch("the data has rows that where is not true of: they would come twice")
                    writer.write(rows)
            writer.close()
        except BaseException:
            writer.discard()
            raise
        return writer

    def _plan_files(
        self, table_id: str, filter: Filter | None, version: int | None
    ) -> tuple[int, Definition, list[Mapping[str, Any]]]:
        """The version, its definition, and all files that may have rows which satisfy the
        filter."""
        question: dict[str, Any] = {"definition": True, "max_results": _PAGE}
        if filter is not None and filter.sql is not None:
            question["predicate"] = filter.sql
        if version is not None:
            question["version"] = version
        attempts = 0
        while True:
            try:
                return self._all_pages(table_id, question)
            except (
                ApiError
            ) as e:  # what the pages were made from is gone: an index was replaced, or a log was cleaned up
                attempts += 1
                if e.body.get("field") != "page_token" or attempts == _PLANS:
                    raise

    def _all_pages(self, table_id: str, question: dict[str, Any]) -> tuple[int, Definition, list[Mapping[str, Any]]]:
        page = self._api.plan(table_id, question)
        files = list(page["files"])
        first = page
        while token := page.get("next_page_token"):
            page = self._api.plan(table_id, {**question, "definition": False, "page_token": token})
            files += page["files"]
        return int(first["version"]), Definition.of_actions(first["definition"]), files

    def _body(self, storage: Storage, version: int, content: str) -> dict[str, Any]:
        """The proposal of a version: in the request, or by a staged file that is written now."""
        size = len(content.encode())
        if size <= INLINE_BYTES:
            return {"version": version, "inline": {"content": content}}
        name = f"{version:020d}.{uuid.uuid4()}.json"
        storage.write(f"_delta_log/_staged_commits/{name}", content.encode())
        return {"version": version, "staged": {"name": name, "size": size, "modified": self._now_ms()}}

    def _append_staged(
        self, table_id: str, storage: Storage, writer: Writer, *, definition: Definition, id: str, base: int
    ) -> int:
        """Commits an append that is too large for a request: it is written for one version after
        the other until one is free. Its rows depend on no other commit except on one that changes
        the table's definition, which is looked for each time.
        """
        for _ in range(_REBASES):
            content = commits.append(id, self._now_ms(), base, files=writer.files, definition=definition)
            proposal = Proposal(table_id, base + 1, id, self._body(storage, base + 1, content))
            try:
                return int(self._propose(proposal, writer, is_ticket=False, keeps_files=True)["version"])
            except Conflict:
                state = self._load()
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

    def _propose(
        self, proposal: Proposal, writer: Writer, *, is_ticket: bool, keeps_files: bool = False
    ) -> dict[str, Any]:
        """The commit as the server ratified it. Removes the files when it was refused for good, and
        only then."""
        try:
            return (
                self._send(proposal)
                if is_ticket
                else _shown_members(ratify(self._api, proposal, self._deadline).commit)
            )
        except proposals.OutcomeUnknown as e:
            raise OutcomeUnknown(f"{self.name}: {e}", self.name, proposal.txn_id) from e
        except ApiError as e:
            if e.ambiguous:
                message = f"{self.name}: the outcome of the commit {proposal.txn_id} is unknown: {e}"
                raise OutcomeUnknown(message, self.name, proposal.txn_id) from e
            if not keeps_files or e.type not in _CONFLICTS:
                writer.discard()
            if e.type in _CONFLICTS:
                latest = e.body.get("latest")
                raise Conflict(f"{self.name}: {e}", int(latest) if isinstance(latest, int) else None) from e
            raise

    def _send(self, ticket: Proposal) -> dict[str, Any]:
        """Sends a ticket until there is an answer. Its transaction identifies it, so that it may be
        sent again. After an attempt with an unknown outcome a refusal is no outcome, because that
        attempt may still be carried out.
        """
        until = time.monotonic() + self._deadline
        is_open = False

        def attempt() -> dict[str, Any]:
            nonlocal is_open
            try:
                answer: dict[str, Any] = self._api.propose(ticket.table_id, ticket.body)["commit"]
                return answer
            except ApiError as e:
                is_open = is_open or e.ambiguous
                raise

        try:
            return self._api.http.retrying(until)(attempt)
        except ApiError as e:
            if not is_open:
                raise
            found = self._ask(ticket)
            if found is not None:
                return found
            raise proposals.OutcomeUnknown(ticket, self._deadline, e) from e

    def _ask(self, ticket: Proposal) -> dict[str, Any] | None:
        """The commit of a ticket without an answer, if the server says that there is one."""
        try:
            found = proposals.outcome_of(self._api, ticket.table_id, ticket.version, ticket.txn_id)
        except ApiError:
            return None
        return {"version": found.version} if found.outcome == "ratified" else None

    def _is_ours(self, answer: Mapping[str, Any], storage: Storage, writer: Writer) -> bool:
        """Whether the commit has the files of this call, and not of an earlier append with the same
        id. If it is unknown, they are kept: files that no commit names do no harm."""
        content = answer.get("content")
        if content is None:
            try:
                content = storage.read(storage.path(f"_delta_log/{int(answer['version']):020d}.json")).decode()
            except OSError as e:
                log.warning(
                    "turnstile_client: %s: which files version %s has is not known: %s", self.name, answer["version"], e
                )
                return True
        return writer.files[0].path in commits.adds(content)


def _shown_members(commit: Any) -> dict[str, Any]:
    return {"version": commit.version}

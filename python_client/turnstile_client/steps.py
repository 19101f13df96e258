"""The steps that operations on a table have in common: load it, plan its files, write files,
propose a commit. Source: docs/api.md, "Commits" and "Planning"."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from turnstile_client.core.filters import Filter
from turnstile_client.errors import ApiError, Conflict, DataMismatch, OutcomeUnknown, Unsupported
from turnstile_client.files import Writer, batches, stream_of, target_bytes
from turnstile_client.storage import Storage
from turnstile_http import proposals
from turnstile_http.api import Api
from turnstile_http.http import path
from turnstile_http.proposals import Proposal, ratify
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import Definition, columns_with_default

#: Bytes of a commit that travels in the request; a larger one goes by a staged file.
INLINE_BYTES: Final = 200_000
#: The greatest row id that may be assigned.
MAX_ROW_ID: Final = 2**53 - 1
_PAGE: Final = 5000
_CONFLICTS: Final = frozenset({"CommitVersionConflict", "CommitConflict", "ConcurrentChange"})


class TableSteps:
    """A Delta table of a server, by its name, with the steps of operations on it."""

    def __init__(self, api: Api, name: str, storage: Callable[[str, str], Storage], deadline: float) -> None:
        """
        Args:
            storage: opens the folder of a table, by its id and location.
            deadline: seconds that a commit may take, with all retries.
        """
        self.name = name
        self._api = api
        self._deadline = deadline
        self._open = storage
        self._storage: tuple[str, Storage] | None = None

    def load(self) -> Any:
        """The table as the catalog has it. Raises :class:`ApiError`, and :class:`Unsupported` for a
        table of another format."""
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

    def version_of(self, state: Any, id: str) -> int | None:
        """The version of the commit with a transaction id; None where the server knows none."""
        found = proposals.outcome_of(self._api, state.table_id, max(state.tail.latest, 1), id)
        return found.version if found.outcome == "ratified" else None

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

    def storage_of(self, table_id: str, location: str) -> Storage:
        """The folder of the table, which is opened once."""
        if self._storage is None or self._storage[0] != table_id:
            self._storage = (table_id, self._open(table_id, location))
        return self._storage[1]

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def high_water(self, table_id: str) -> int:
        """The highest row id that is assigned. Raises :class:`Unsupported` where the server does
        not know it."""
        mark = self._api.head(table_id).row_id_high_water_mark
        if mark is None or mark > MAX_ROW_ID:
            raise Unsupported(
                f"{self.name}: the highest row id is not known to the server: rewrite the table with an engine once"
            )
        return mark

    def write(self, data: Any, definition: Definition, storage: Storage, filter: Filter | None = None) -> Writer:
        """Writes the files of the data; removes them if that does not succeed."""
        reader = stream_of(data)
        conformer = Conformer(reader.schema, definition.schema, columns_with_default(definition))
        with Writer(storage, definition, target_bytes(definition)) as writer:
            for batch in batches(reader):
                for rows in conformer.conform(batch):
                    if (
                        filter is not None
                        and pa.Table.from_batches([rows]).filter(filter.expression).num_rows < rows.num_rows
                    ):
                        raise DataMismatch(
                            "where is not true of all rows of the data: the next run would add these again"
                        )
                    writer.write(rows)
        return writer

    def plan_files(
        self, table_id: str, filter: Filter | None, version: int | None
    ) -> tuple[int, Definition, list[Mapping[str, Any]]]:
        """The version, its definition, and all files that may have rows which satisfy the
        filter."""
        question: dict[str, Any] = {"definition": True, "max_results": _PAGE}
        if filter is not None and filter.sql is not None:
            question["predicate"] = filter.sql
        if version is not None:
            question["version"] = version
        plan = self._api.whole_plan(table_id, question)
        return int(plan["version"]), Definition.of_actions(plan["definition"]), plan["files"]

    def body_of(self, storage: Storage, version: int, content: str) -> dict[str, Any]:
        """The proposal of a version: in the request, or by a staged file that is written now."""
        if is_inline(content):
            return {"version": version, "inline": {"content": content}}
        size = len(content.encode())
        name = f"{version:020d}.{uuid.uuid4()}.json"
        storage.write(f"_delta_log/_staged_commits/{name}", content.encode())
        return {"version": version, "staged": {"name": name, "size": size, "modified": self.now_ms()}}

    def propose(
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


def is_inline(content: str) -> bool:
    """Whether a commit travels in the request."""
    return len(content.encode()) <= INLINE_BYTES


def _shown_members(commit: Any) -> dict[str, Any]:
    return {"version": commit.version}

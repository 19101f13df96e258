"""Adds the rows of requests to Delta tables, each request at most once (I26).

Requests for one table that wait in a process become one commit: the first one leads and writes for
those that came while the commit before was written (``store.queue``). A request of an idle table
does not wait. ``turns`` has the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import msgspec

from turnstile.delta.core.decide import Refused
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.ingest.budget import ByteBudget
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.turns import Appended, Converted, RowsRequest, WaitingRows, convert, run_batch, run_turn
from turnstile.ingest.writing import Tools, current_head, engine_error
from turnstile.store.cache import Lru
from turnstile.store.core.errors import TurnstileError, UnsupportedTable
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World
from turnstile.store.queue import LeftLine, Line, WaitingQueue
from turnstile_rows.definitions import Definition, check_appendable
from turnstile_rows.errors import Unsupported

MEMBERS: Final = 90
"""Requests of one commit: their rows are written in its transaction."""

_PATIENCE_MS: Final = 5_000
"""How long a request waits in a line that does not move; then it is written alone."""

_EVOLUTIONS: Final = 3
"""How often columns are added for a request, after others changed the table in between."""

_DEFINITIONS: Final = 1_000
_BUDGET_BYTES: Final = 64 * 1024 * 1024
"""Bytes of rows that a process has in memory; a principal may have half of them. As objects of
Python they take up to ten times as much."""

_WHAT: Final = "requests with rows for the table"
_Queue = WaitingQueue[WaitingRows]


class RowAppender:
    """Appends rows. One per sandbox: it has the lines of requests, and caches definitions of
    tables. Safe for threads."""

    def __init__(
        self,
        world: World,
        groups: GroupRatifier,
        metadata: MetadataStore,
        limits: Limits | None = None,
        *,
        rest: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """
        Args:
            rest: entered while a request waits for the one that leads.
        """
        limits = limits or Limits()
        self.budget = ByteBudget(_BUDGET_BYTES, _BUDGET_BYTES // 2)
        self._world = world
        self._metadata = metadata
        self._definitions = Lru[str, Definition](_DEFINITIONS)
        self._tools = Tools(
            world=world,
            groups=groups,
            identities=IdentityIndex(world.objs, world.space, world.clock, limits.identity_days),
            limits=limits,
            definition_of=self._definition,
        )
        self._queue: _Queue = _RestingQueue(rest)

    def append(
        self, catalog: str, request: RowsRequest, rejected_table: Callable[[], str] | None = None
    ) -> Appended | Refused:
        """Adds the rows to a table of ``catalog``.

        Args:
            rejected_table: returns the id of the table that takes the rows that do not fit; it is
                called where there are some. Without it they are refused with all others.

        Returns:
            The version with the rows; or a refusal, where the table changed during every attempt,
            or takes no commits.

        Raises:
            InvalidRows: a row does not fit the table; or the body cannot be read.
            TooLarge: the rows are too many, or of too many partitions.
            UnsupportedTable: the table needs what only an engine does.
            KeyReused: another request had this identity.
            OutcomeUnknown: it is not known whether the rows were added; the same request finds out.
            StorageFault, Throttled: nothing was added.
        """
        converted: Converted | None = None
        for _ in range(_EVOLUTIONS):
            try:
                return self._append(catalog, request, converted)
            except InvalidRows:
                if rejected_table is not None and not request.rejected_id:
                    converted = self._split(request)
                    if converted.rejects:
                        request = msgspec.structs.replace(request, rejected_id=rejected_table())
                    continue
                if not request.evolves:
                    raise
                from turnstile.ingest.evolution import evolve

                refused = evolve(self._tools, self._metadata, request)
                if refused is not None:
                    return refused
        return self._append(catalog, request, converted)

    def _split(self, request: RowsRequest) -> Converted:
        """Returns the rows of the request by the table as it is now, with those that do not fit set
        apart. Raises InvalidRows and TooLarge for a body that is refused as a whole, before a table
        for its rows is created."""
        head = current_head(self._world, request.table_id)
        splitting = msgspec.structs.replace(request, rejected_id=request.table_id)
        return convert(splitting, self._tools.definition_of(head))

    def append_many(
        self, catalog: str, requests: Sequence[RowsRequest], until_ms: int
    ) -> list[Appended | Refused | TurnstileError]:
        """Adds the rows of requests to one table of ``catalog``, in their order and in as few
        commits as there can be. Nothing is added after a commit that failed, or after ``until_ms``.

        Returns:
            For each request what ``append`` returns or raises. It adds no columns.
        """
        waiting = [self._waiting(catalog, request) for request in requests]
        run_batch(self._tools, waiting, MEMBERS, until_ms)
        return [_outcome_of(one) for one in waiting]

    def _append(self, catalog: str, request: RowsRequest, converted: Converted | None = None) -> Appended | Refused:
        waiting = self._waiting(catalog, request, converted)
        try:
            self._apply(self._queue, waiting)
        except LeftLine:
            self._apply(new_queue(), waiting)
        return waiting.outcome()

    def _waiting(self, catalog: str, request: RowsRequest, converted: Converted | None = None) -> WaitingRows:
        return WaitingRows(request, self._tools.key_of(catalog, request.table_id, request.identity), converted)

    def _apply(self, queue: _Queue, waiting: WaitingRows) -> None:
        def lead(line: Line[WaitingRows]) -> None:
            run_turn(self._tools, queue, line, waiting)

        queue.apply(waiting.request.table_id, waiting, lead, _PATIENCE_MS)

    def _definition(self, head: TableHead) -> Definition:
        """The definition of a table. Raises UnsupportedTable."""
        definition = self._definitions.get(head.metadata)
        if definition is None:
            definition = definition_of(self._metadata.get(head.catalog, head.metadata))
            self._definitions.put(head.metadata, definition)
        try:
            check_appendable(definition)
        except Unsupported as error:
            raise engine_error(error) from None
        return definition


def _outcome_of(waiting: WaitingRows) -> Appended | Refused | TurnstileError:
    try:
        return waiting.outcome()
    except TurnstileError as error:
        return error


class _RestingQueue(_Queue):
    """The lines of requests, whose threads let others work while they wait."""

    def __init__(self, rest: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(MEMBERS, _WHAT)
        self._rest = rest

    def _wait(self, waiting: WaitingRows, seconds: float) -> bool:
        with self._rest():
            return super()._wait(waiting, seconds)


def new_queue() -> _Queue:
    """Returns a queue in which no request waits."""
    return WaitingQueue(MEMBERS, _WHAT)


def definition_of(metadata: DeltaMetadata) -> Definition:
    """Returns a table's definition. Raises UnsupportedTable for a type that only engines know."""
    actions = {"protocol": metadata.protocol, "metaData": metadata.metadata}
    try:
        return Definition.of_actions(actions, metadata.domains)
    except Unsupported as error:
        raise UnsupportedTable(str(error), remedy="write the rows with an engine that knows it") from None

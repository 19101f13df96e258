"""One commit for the requests with rows that wait for a table.

The first request of a line leads (``store.queue``). It does these steps for all of them:

    1  read        the table's HEAD and the records of the requests (``core.identity``), in one
                   read. The commit will be an append after the HEAD's latest version
    2  recognise   a request with a record was added before, and gets the version of that commit
    3  convert     the rows into the table's columns. A request whose rows do not fit is refused,
                   and the others go on; or its rows that do not fit are set apart
    4  write       one data file for each partition, under new names
    5  commit      the append and the records of its requests, in one transaction; with them the
                   append of the rows that do not fit to the table of rejected rows

A crash after any step leaves at most data files that no commit names, which VACUUM removes. The
steps begin again with a new HEAD if the table's definition changed meanwhile, or if another process
added one of the requests. If the answer to step 5 is lost, the outcome is unknown, and the client
sends the same request again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.catalog.changes.idempotency import KeyReused
from turnstile.delta.commits import check_readable, head_of, read_head
from turnstile.delta.core.content import PRODUCER_APP
from turnstile.delta.core.decide import CONTENDED, Refused, find_identity, not_active
from turnstile.delta.core.head import ACTIVE, TableHead, tail_by_version
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.transactions.groups import GroupRatified, RowsTaken
from turnstile.delta.undecided import seen_one
from turnstile.ingest.core.bodies import rows_of, split_rows
from turnstile.ingest.core.errors import InvalidRows, VersionUnknown, require_time
from turnstile.ingest.core.files import Parts, encode_parts, parts_of
from turnstile.ingest.core.identity import (
    Identity,
    common_principal,
    digest_in,
    digest_of,
    rejected_in,
    remembering_row,
    txn_in,
)
from turnstile.ingest.core.rejects import Reject
from turnstile.ingest.rejected import append_rejects
from turnstile.ingest.writing import ENGINE, Tools, engine_error, name_files, require_inline, write_files
from turnstile.store.core.errors import (
    ExpectationBroken,
    OutcomeUnknown,
    StorageFault,
    Throttled,
    TooLarge,
    TurnstileError,
)
from turnstile.store.core.writes import Row
from turnstile.store.queue import Line, Waiting, WaitingQueue, copy_of
from turnstile_rows.commits import DataFile, append
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import DataMismatch, Unsupported

CHANGING: Final = msgspec.structs.replace(CONTENDED, remedy="send the same request again")
"""The refusal after the last attempt; nothing was added."""

_ATTEMPTS: Final = 5
_BROKEN: Final = "correct the rows and send them again: none of this request was added, nor set apart"
PROBLEMS: Final = 10
"""Rejected rows that the answer to a request shows."""
_TURN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the requests of one commit, unless the first one alone has more."""


class RowsRequest(msgspec.Struct, frozen=True):
    """The rows of a request, after decompression; ``media``: one of ``core.bodies.FORMATS``;
    ``evolves``: columns that the table lacks are added to it; ``rejected_id``: of the table that
    takes the rows that do not fit. Without one the request is refused for such a row."""

    table_id: str
    plain: bytes
    media: str
    identity: Identity
    evolves: bool = False
    rejected_id: str = ""


class Appended(msgspec.Struct, frozen=True):
    """The rows are in ``version``. ``rows``: how many; None where an earlier request with this
    identity added them (``replayed``). ``rejected``: how many are in the table of rejected rows
    instead; ``problems``: the first of these."""

    version: int
    rows: int | None
    replayed: bool
    rejected: int = 0
    problems: tuple[Reject, ...] = ()


class Converted(msgspec.Struct, frozen=True):
    """The rows of a request in the columns of its table by ``definition``, their number, and the
    rows that do not fit."""

    definition: Definition
    parts: Parts
    rows: int
    rejects: Sequence[Reject]


class WaitingRows(Waiting[Appended | Refused]):
    """A request in the line of its table. ``key``: of the row that remembers it, empty for a
    request without an identity; ``converted``: its rows, if they were converted before; ``tries``:
    how often it was part of a commit."""

    def __init__(self, request: RowsRequest, key: str, converted: Converted | None = None) -> None:
        super().__init__()
        self.request = request
        self.key = key
        self.converted = converted
        self.digest = digest_of(request.plain, request.media) if key else ""
        self.tries = 0

    @property
    def refusal(self) -> Refused | None:
        """The refusal of its commit, if that is its outcome."""
        return self._outcome if isinstance(self._outcome, Refused) else None


def convert(request: RowsRequest, definition: Definition) -> Converted:
    """Converts the rows of a request. Raises InvalidRows and TooLarge for rows that do not fit and
    are not set apart, and UnsupportedTable."""
    rejects: Sequence[Reject] = ()
    try:
        if request.rejected_id:
            batches, rejects = split_rows(request.plain, request.media, definition)
        else:
            batches = rows_of(request.plain, request.media, definition)
        rows = sum(batch.num_rows for batch in batches)
        return Converted(definition, parts_of(batches, definition), rows, rejects)
    except DataMismatch as error:
        raise InvalidRows(str(error), field="body") from None
    except Unsupported as error:
        raise engine_error(error) from None


class _Judged(msgspec.Struct, frozen=True):
    """A request with its rows in the columns of the table."""

    waiting: WaitingRows
    converted: Converted

    def answer(self, version: int) -> Appended:
        """The answer to the request, whose rows are in ``version``."""
        rejects = self.converted.rejects
        return Appended(version, self.converted.rows, False, len(rejects), tuple(rejects[:PROBLEMS]))


def run_turn(tools: Tools, queue: WaitingQueue[WaitingRows], line: Line[WaitingRows], own: WaitingRows) -> None:
    """Settles the own request, the first of the line, and others on the way."""
    while not own.is_settled:
        taken = queue.take(line)
        group = _select(taken)
        try:
            _attempt(tools, own.request.table_id, group)
        except TurnstileError as error:  # it says nothing of one request in particular
            for waiting in group:
                waiting.settle(copy_of(error))
        except BaseException:
            for waiting in group:
                waiting.settle(OutcomeUnknown("the process that adds the rows is ending"))
            raise
        finally:
            queue.release(line, taken, own)


def run_batch(tools: Tools, batch: Sequence[WaitingRows], most: int, until_ms: int) -> None:
    """Settles requests of one table in their order, at most ``most`` in a commit. The failure of a
    commit, or the end of the time, is the outcome of all requests that are left."""
    while left := [waiting for waiting in batch if not waiting.is_settled]:
        failure: Refused | TurnstileError | None = None
        group = _select(left[:most])
        try:
            require_time(tools.world.clock.now_ms(), until_ms)
            _attempt(tools, group[0].request.table_id, group)
        except (Throttled, StorageFault) as error:
            failure = error
        except TurnstileError as error:  # whatever it says, it says nothing of one request in particular
            failure = OutcomeUnknown(error.public_message)
        else:
            failure = next((refusal for waiting in group if (refusal := waiting.refusal) is not None), None)
        if failure is not None:
            for waiting in left:
                waiting.settle(failure if isinstance(failure, Refused) else copy_of(failure))


def _select(taken: Sequence[WaitingRows]) -> list[WaitingRows]:
    """The requests that are tried together: none twice, and not too many bytes. The others keep
    their place in the line."""
    group: list[WaitingRows] = []
    keys = set[str]()
    size = 0
    for waiting in taken:
        size += len(waiting.request.plain)
        if group and size > _TURN_BYTES:
            break
        if waiting.key and waiting.key in keys:
            continue
        keys.add(waiting.key)
        group.append(waiting)
    return group


def _attempt(tools: Tools, table_id: str, group: Sequence[WaitingRows]) -> None:
    """All steps, once. Requests that are not settled are tried again."""
    table_key = tools.world.space.table(table_id)
    rows = tools.world.refs.read_many([table_key, *(waiting.key for waiting in group if waiting.key)])
    head = head_of(rows.get(table_key), table_id)
    head = seen_one(tools.world, head) if head.undecided else head
    check_readable(head)
    for waiting in group:
        waiting.tries += 1
        row = rows.get(waiting.key)
        if row is not None:
            _settle_added(tools, head, waiting, row)
    if head.state != ACTIVE:
        for waiting in group:
            waiting.settle(not_active(head))
        return
    definition = tools.definition_of(head)
    judged = [one for waiting in group if not waiting.is_settled and (one := _judge(waiting, definition)) is not None]
    if judged:
        _commit(tools, head, definition, judged)


def _settle_added(tools: Tools, head: TableHead, waiting: WaitingRows, row: Row) -> None:
    """Gives a request that was added before the version of its commit."""
    if digest_in(row) != waiting.digest:
        waiting.settle(KeyReused())
        return
    try:
        version = _version_of(tools, head, txn_in(row))
        waiting.settle(Appended(version, None, replayed=True, rejected=rejected_in(row)))
    except VersionUnknown as error:  # it says nothing of the other requests
        waiting.settle(error)


def _version_of(tools: Tools, head: TableHead, txn: str) -> int:
    """The version of a ratified commit, by its transaction id. ``head`` may be of before the
    commit: then the present one is read. Raises VersionUnknown where the version is not found."""
    try:
        version = _find_version(tools, head, txn)
        if version is None:
            version = _find_version(tools, read_head(tools.world, head.table_id), txn)
    except (StorageFault, Throttled) as error:
        raise VersionUnknown(
            f"the rows were added, and their version could not be read: {error.public_message}"
        ) from error
    if version is None:
        raise VersionUnknown("the rows were added, and the version that has them is not found")
    return version


def _find_version(tools: Tools, head: TableHead, txn: str) -> int | None:
    place = find_identity(tail_by_version(head), txn)
    return tools.identities.recall(head.catalog, head.table_id, [txn]) if place is None else place.version


def _judge(waiting: WaitingRows, definition: Definition) -> _Judged | None:
    """Step 3 of one request; None where its rows are refused. Rows that were converted by the same
    definition are taken as they are."""
    converted = waiting.converted
    try:
        if converted is None or converted.definition is not definition:
            converted = convert(waiting.request, definition)
        return _Judged(waiting, converted)
    except TurnstileError as error:
        waiting.settle(error)
    return None


def _commit(tools: Tools, head: TableHead, definition: Definition, judged: Sequence[_Judged]) -> None:
    """Steps 4 and 5. Fewer requests where their rows together are too many for one commit, or break
    an expectation."""
    try:
        encoded = encode_parts([one.converted.parts for one in judged], definition)
        files = name_files(tools.world, encoded)
        txn, content = _content(tools, head, definition, judged, files)
        rejected = _rejected_commits(tools, judged)
    except TooLarge as error:
        _commit_half(tools, head, definition, judged, error)
        return
    if any(one.waiting.is_settled for one in judged):
        return  # the others are tried again without them
    write_files(tools.world, head.location, files, encoded)
    now = tools.world.clock.now_ms()
    days = tools.limits.identity_days
    rows = tuple(
        remembering_row(
            one.waiting.key, one.waiting.digest, txn, now_ms=now, days=days, rejected=len(one.converted.rejects)
        )
        for one in judged
        if one.waiting.key
    )
    by = common_principal(one.waiting.request.identity for one in judged)
    request = CommitRequest(head.table_id, None, base=head.latest, content=content, principal=by)
    try:
        answer = tools.groups.commit(GroupRequest(tools.world.ids.uuid(), (request, *rejected), rows=rows))
    except RowsTaken as taken:
        _settle_taken(tools, head, taken, txn, judged)
        return
    except ExpectationBroken as error:
        broken = ExpectationBroken(error.message, field="body", remedy=_BROKEN)
        _commit_half(tools, head, definition, judged, broken)
        return
    except TurnstileError as error:
        table_id = _rejected_table_in(error, rejected)
        if not table_id:
            raise
        for one in judged:
            if _rejected_id(one) == table_id:
                one.waiting.settle(copy_of(error))
        _end_attempt(judged)
        return
    if isinstance(answer, GroupRatified):
        _settle_ratified(judged, answer.members[0].version)
        return
    for member in answer.members:
        if isinstance(member.decision, Refused):
            for one in judged:
                if member.table_id in (head.table_id, _rejected_id(one)):
                    one.waiting.settle(member.decision)
    _end_attempt(judged)


def _commit_half(
    tools: Tools, head: TableHead, definition: Definition, judged: Sequence[_Judged], error: TurnstileError
) -> None:
    """Commits the first half of requests that cannot be committed together: the others are tried
    again. The error is the outcome of a single one."""
    if len(judged) == 1:
        judged[0].waiting.settle(copy_of(error))
    else:
        _commit(tools, head, definition, judged[: len(judged) // 2])


def _end_attempt(judged: Sequence[_Judged]) -> None:
    """Refuses the requests that are not settled after their last attempt."""
    for one in judged:
        if one.waiting.tries >= _ATTEMPTS:
            one.waiting.settle(CHANGING)


def _rejected_id(judged: _Judged) -> str:
    """The table that takes rows of a request; empty where all of them fit."""
    return judged.waiting.request.rejected_id if judged.converted.rejects else ""


def _rejected_table_in(error: TurnstileError, commits: Sequence[CommitRequest]) -> str:
    """The table of rejected rows that an error of the group is about; empty where it is about the
    table itself, or no member. ``commits``: these of the group after its first."""
    return commits[error.member - 1].table_id if error.member else ""


def _rejected_commits(tools: Tools, judged: Sequence[_Judged]) -> list[CommitRequest]:
    """Writes the files of the rows that do not fit, and returns a commit for each table of rejected
    rows. Settles the requests with rows that such a table does not take. Raises TooLarge where the
    rows of several requests are too many together."""
    commits = []
    for table_id in dict.fromkeys(filter(None, map(_rejected_id, judged))):
        of_table = [one for one in judged if _rejected_id(one) == table_id]
        try:
            rejects = [(one.waiting.request.identity, one.converted.rejects) for one in of_table]
            commits.append(append_rejects(tools, table_id, rejects))
        except TurnstileError as error:
            if isinstance(error, TooLarge) and len(of_table) > 1:
                raise
            for one in of_table:
                one.waiting.settle(copy_of(error))
    return commits


def _settle_taken(tools: Tools, head: TableHead, taken: RowsTaken, txn: str, judged: Sequence[_Judged]) -> None:
    """A request of the group was added before. If it was by this very commit, whose first answer
    was lost, all were; else it is found in the next attempt."""
    if any(txn_in(row) == txn for row in taken.rows if row is not None):
        _settle_ratified(judged, _version_of(tools, head, txn))
    _end_attempt(judged)


def _settle_ratified(judged: Sequence[_Judged], version: int) -> None:
    for one in judged:
        one.waiting.settle(one.answer(version))


def _content(
    tools: Tools, head: TableHead, definition: Definition, judged: Sequence[_Judged], files: Sequence[DataFile]
) -> tuple[str, bytes]:
    """The transaction id and the content of the commit. Raises TooLarge."""
    txn = tools.world.ids.uuid()
    apps = dict[str, int]()
    for one in judged:
        identity = one.waiting.request.identity
        if identity.producer:
            app = PRODUCER_APP + identity.producer
            apps[app] = max(identity.sequence, apps.get(app, 0))
    now = tools.world.clock.now_ms()
    raw = append(txn, now, head.latest, files=files, definition=definition, engine=ENGINE, apps=apps).encode()
    require_inline(raw, tools.limits, "the commit of these rows", "send rows of fewer partitions in one request")
    return txn, raw

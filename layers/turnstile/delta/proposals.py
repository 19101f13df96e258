"""From a request to a proposal: everything that can be checked before the HEAD is read."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from turnstile.delta.commits import pack
from turnstile.delta.core.content import Content
from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import MAX_APPS, PRINCIPAL_MAX, ROWS_KEPT, Entry
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import InvalidCommit, InvalidRequest
from turnstile.store.core.names import MAX_VERSION, inline_unique, parse_staged_file
from turnstile.store.core.rows import app_key
from turnstile.store.core.writes import Change, Insert

Describe = Callable[[str, DeltaMetadata, Content, int], DeltaMetadata]
"""Makes the table metadata after a commit from the metadata before it (id and value), the commit's
content and its version. ``core.metadata.apply`` is the usual one. Raises the reason for refusing
the commit. Without side effects: the commit may be refused afterwards.
"""


class CommitRequest(msgspec.Struct, frozen=True):
    """A proposal as a client sends it.

    ``version`` None asks for a ticket. Either ``staged`` (base name, with ``size`` and
    ``modified_ms``) or ``content``. ``inline_name`` is the staged name an inline commit will be
    materialised under (default: derived). ``any_name``: the staged name need not follow the
    convention (``name_below``). ``describe`` makes the table metadata of a commit that changes it,
    and with ``always`` of every commit. ``holder``: of the reservation that its transaction has
    (``core.reservations``). ``principal``: the name of the principal that proposes it, which
    nothing is decided by; empty where it has several. The operator's is not kept. ``checked``: its
    rows were checked by the expectations of the table already. ``name``: the full name that its
    table gets by the same write of its HEAD; empty: it keeps its own.
    """

    table_id: str
    version: int | None
    base: int | None = None
    staged: str = ""
    size: int = 0
    modified_ms: int = 0
    content: bytes | None = None
    inline_name: str = ""
    etag: str | None = None
    any_name: bool = False
    describe: Describe | None = None
    always: bool = False
    holder: str = ""
    principal: str = ""
    checked: bool = False
    name: str = ""


SLACK_MAX = 1_000_000
"""By how many versions a read may be declared to be behind: more than any transaction lasts."""


class ReadVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table that the transaction read and does not write: no more than ``slack`` commits may have
    been ratified since ``version`` (LakeVilla, rule R1, section 4.3). With a ``predicate`` earlier
    ones count only if they may have changed a row that satisfies it.
    """

    table_id: str
    version: int
    slack: int = 0
    predicate: str = ""


class HandOver(ReadVersion, frozen=True):
    """A table that ends with the group: its commits up to ``version``, its latest, are another
    table's from then on (I28)."""


class GroupRequest(msgspec.Struct, frozen=True):
    """A group as a client sends it: its ``id`` (a uuid of its own), a commit for each table that it
    writes, and the tables that it only read, or hands over. ``entry``: the change of its entry in
    the journal by the same write (``delta.transactions.journal``). ``rows``: further rows that the
    same write makes, in refs.
    """

    id: str
    commits: tuple[CommitRequest, ...]
    reads: tuple[ReadVersion, ...] = ()
    entry: Change | None = None
    rows: tuple[Insert, ...] = ()


def check_request(request: CommitRequest) -> None:
    """Checks shapes and ranges; raises InvalidRequest naming the member."""
    version = request.version
    if version is not None and not 1 <= version <= MAX_VERSION:
        problem = f"version must be between 1 and {MAX_VERSION}, not {version}"
        raise InvalidRequest(problem, field="version", remedy="version 0 is written when the table is created")
    if request.base is not None and not 0 <= request.base <= MAX_VERSION:
        raise InvalidRequest(f"base must be a version, not {request.base}", field="base")
    if bool(request.staged) == (request.content is not None):
        raise InvalidRequest("give either staged or inline", field="staged", remedy="exactly one of the two")
    for field, name in (("staged.name", request.staged), ("inline.name", request.inline_name)):
        if not name or (request.any_name and field == "staged.name"):
            continue
        parsed = parse_staged_file(name)
        if parsed is None or parsed[0] != version:
            problem = f"{field} {name!r} is not a staged commit of version {version}"
            raise InvalidRequest(problem, field=field, remedy="name it <20 digits of the version>.<uuid>.json")
    if request.staged and request.size <= 0:
        raise InvalidRequest("staged.size must be positive", field="staged.size")
    if not 0 <= request.modified_ms <= MAX_VERSION:
        raise InvalidRequest("staged.modified must be a time in ms", field="staged.modified")


def name_below(request: CommitRequest) -> InvalidCommit | None:
    """Returns the reason for refusing the staged name of ``request``; None unless it is of a
    version below the proposed one.

    gc relies on the name: the files of versions that are published are removed (I10). So no version
    is ratified under the name of an earlier one, also if a client proposes a file again that lost.
    """
    parsed = parse_staged_file(request.staged)
    if parsed is None or request.version is None or parsed[0] >= request.version:
        return None
    return InvalidCommit(
        f"staged file {request.staged} is named for version {parsed[0]}, and version {request.version} is proposed",
        field="staged.name",
        remedy=f"write the commit of version {request.version} to a new file, and propose that: files of earlier "
        f"versions "
        "may be removed at any time",
    )


def proposal_of(
    request: CommitRequest, content: Content, raw: bytes | None, now: int, *, digest: int = 0, group: str = ""
) -> Proposal:
    """Returns the proposal of ``request`` with ``content``, whose bytes are ``raw`` when it came
    inline (None: staged). The entry keeps ``now`` (ms), the ``digest`` of a staged file that was
    read whole, and the id of the ``group``.

    Raises:
        InvalidCommit: a ticket for a commit that is not a blind append, or row tracking without
            statistics.
        InvalidRequest: no base.
    """
    ticket = request.version is None
    if ticket and (raw is None or not content.blind or len(content.apps) > MAX_APPS):
        raise InvalidCommit(
            "only an inline blind append may ask for the next version",
            field="version",
            remedy=f"blind append: commitInfo, add with dataChange, up to {MAX_APPS} txn, the row-tracking domain; "
            "name the version for anything else",
        )
    base = request.base
    if base is None:
        base = content.read_version
    if request.version is not None and (base is None or base >= request.version or base < 0):
        base = request.version - 1
    if base is None:
        raise InvalidRequest("base is missing", field="base", remedy="give the version the append was based on")
    rows = -1
    if ticket and content.hwm is not None:
        if content.rows is None:
            raise InvalidCommit(
                "row tracking needs stats.numRecords in every add", field="add.stats", remedy="collect statistics"
            )
        rows = content.rows
    unique = ""
    if request.inline_name:
        parsed = parse_staged_file(request.inline_name)
        unique = parsed[1] if parsed and parsed[1] != inline_unique(content.txn) else ""
    staged = parse_staged_file(request.staged) if request.staged else None
    apps = tuple(sorted({app_key(app) for app in content.apps})) if len(content.apps) <= MAX_APPS else ()
    return Proposal(
        version=request.version,
        base=base,
        entry=Entry(
            txn=content.txn,
            ict=content.ict,
            size=len(raw) if raw is not None else request.size,
            changed=content.change_kind if len(content.apps) <= MAX_APPS else "unread",
            operation=content.operation,
            unique=staged[1] if staged else unique,
            name=request.staged if request.staged and not (staged and staged[0] == request.version) else "",
            modified_ms=request.modified_ms,
            data=pack(raw) if raw is not None else b"",
            inline=raw is not None,
            ticket=ticket,
            rows=rows,
            hwm=ROWS_KEPT if ticket or content.hwm is None else content.hwm,
            ratified_ms=now,
            apps=len(apps),
            digest=digest,
            group=group,
            principal="" if request.principal == OPERATOR.name else request.principal[:PRINCIPAL_MAX],
        ),
        apps=apps,
        asserts=request.etag,
        holder=request.holder,
    )

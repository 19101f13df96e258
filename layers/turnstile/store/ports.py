"""The ports of the services. A new backend implements these and passes ``tests/contract``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, Protocol, TypeVar

import msgspec

from turnstile.store.core.errors import UnreadableObj, UnreadableRow
from turnstile.store.core.rows import Space, StoredRow
from turnstile.store.core.writes import Row, Write

BATCH_GET_MAX: Final = 100
"""Rows or objs that one request reads: DynamoDB's limit for BatchGetItem."""

PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a large file in memory at once: a reader or writer of a file in pieces needs memory for
two pieces."""

TRANSACT_MAX: Final = 100
"""Writes that one transaction holds, and rows that one cut does: DynamoDB's limit for
TransactWriteItems and TransactGetItems."""


T = TypeVar("T")
R = TypeVar("R", bound=StoredRow)


class Accepted(msgspec.Struct, frozen=True):
    """The write was applied; ``row`` is the row after it (None after an Erase or Check)."""

    row: Row | None


class Rejected(msgspec.Struct, frozen=True):
    """A clause did not hold; ``row`` is the row that the clauses were evaluated on (None: no row).

    ``uncertain``: the same write was sent before this one, and its response was lost. This one was
    not applied. The earlier one may have been, which the row shows, or may be applied yet, if its
    clauses hold again by then (I3).
    """

    row: Row | None
    uncertain: bool = False


class AllAccepted(msgspec.Struct, frozen=True):
    """The transaction was applied."""


class SomeRejected(msgspec.Struct, frozen=True):
    """The transaction was not applied. ``failed`` maps the position of each write with clauses that
    did not hold to the row they were evaluated on (None: no row). ``uncertain`` as of ``Rejected``:
    the token keeps the same transaction from being applied twice, but not a late copy of a refused
    one from being applied once.
    """

    failed: Mapping[int, Row | None]
    uncertain: bool = False


class Refs(Protocol):
    """The mutable table of HEADs and owners: point access, conditional writes, strongly consistent
    reads."""

    @property
    def transact_max(self) -> int:
        """The number of writes that one transaction takes: ``TRANSACT_MAX`` or more."""

    def read(self, key: str) -> Row | None:
        """The row, strongly consistent."""

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """Rows by key, each strongly consistent, in one request per ``BATCH_GET_MAX``; missing ones
        are left out."""

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        """Rows by key as of one moment between the call and its return, in one request: of every
        write and transaction, the rows show all or nothing (I8). Missing ones are left out. Costs
        twice as much as ``read_many``, and is put off while one of the rows is being changed, which
        is retried inside until the deadline.

        Raises:
            ValueError: more than ``TRANSACT_MAX`` different keys.
            Throttled: the deadline passed.
        """

    def write(self, write: Write) -> Accepted | Rejected:
        """Applies one conditional write in one request. Throttles and transactions in progress on
        the row are retried inside with full jitter until the deadline.

        Raises:
            Throttled: nothing was applied and the deadline passed.
            OutcomeUnknown: the response was lost; the write may have been applied, or may be yet.
            NewerFormat: nothing was applied, because newer code has changed the row (I22).
        """

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        """Applies up to ``transact_max`` writes, all or none. ``token`` makes a repetition within
        ten minutes harmless. Raises as ``write``."""

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        """Returns the stored content of a damaged row ``of`` that kind, for ``replace_damaged``;
        None where there is no row under the key, or it can be read. One request. Raises
        NewerFormat."""

    def replace_damaged(self, row: Row, content: object) -> bool:
        """Writes ``row`` in place of a damaged one with this ``content``: for rows of which nothing
        is lost (leases of work), never for data. What ``row`` says of other rows must be read after
        the content was. One request. Returns False, and changes nothing, if the content is another
        by now. Raises as ``write``.
        """

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        """Every row of a kind behind the key ``after``, also if the row of that key is gone; rows
        written during the scan may be missed. The order is the store's own, the same in every scan.
        ``stale``: rows may be some seconds old, at half the price.
        """

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        """Rows of these kinds among the next ``limit`` rows behind the key ``after``, and the key
        up to which they were looked at, which may be that of another kind's row; empty when there
        is nothing behind it. One request; rows may be some seconds old.
        """

    def clock_ms(self) -> int | None:
        """The store's own clock, by its last answer; None before the first, and for a store that
        has no clock but this machine's. No request."""


class Obj(msgspec.Struct, frozen=True):
    """An immutable obj: ``type`` tag, serialised ``payload``, ``created_us``, and ``expires_s``
    (None: kept until gc finds it unreachable)."""

    space: str
    id: str
    type: str
    payload: bytes
    created_us: int
    expires_s: int | None = None

    def decode_with(self, decode: Callable[[bytes], T]) -> T:
        """Returns the result of ``decode`` for the payload. Raises UnreadableObj for a damaged
        payload."""
        try:
            return decode(self.payload)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, zlib.error, struct.error) as error:
            raise UnreadableObj(self.space, self.id, str(error) or type(error).__name__) from error


class Objs(Protocol):
    """The write-once table of immutable objs; cacheable for ever without invalidation.

    Types are from ``core.rows``. A payload of up to 350,000 bytes is one row and one request; a
    larger one is stored in parts and read back whole (``store.stored_objs``), for a few requests
    more. An obj is there entirely or not at all.
    """

    def put(self, obj: Obj) -> None:
        """Writes once. Writing the same id again with the same payload is a no-op. Raises
        ValueError for another payload and for a type that is not registered, TooLarge above 4 MiB;
        nothing was written then.
        """

    def put_many(self, objs: Iterable[Obj]) -> None:
        """Writes many, in no order, idempotently; the caller guarantees that equal ids mean equal
        payloads. Raises as ``put``."""

    def get(self, space: str, id: str) -> Obj | None:
        """The obj. Absence is remembered only where it lasts (``core.rows``)."""

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        """Objs by id, in one request per ``BATCH_GET_MAX``; missing ones are left out."""

    def newest(self, space: str, prefix: str) -> Obj | None:
        """The obj with the greatest id that starts with ``prefix``."""

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        """Yields all objs with ids that start with ``prefix``, in id order."""

    def delete(self, space: str, id: str) -> None:
        """Removes an obj, or a part that is lost; only gc does."""

    def lost_parts(self, space: str, before_us: int) -> Iterator[Obj]:
        """Parts that no obj names, written before ``before_us``: of writers and removals that died
        half-way, and of writers that were refused. Safe for a ``before_us`` that is longer ago than
        a write can take.
        """


class Stat(msgspec.Struct, frozen=True):
    """A stored file: path relative to the table, size in bytes, modification time."""

    path: str
    size: int
    modified_ms: int


class LogStorage(Protocol):
    """Table storage below one table's location. Paths are relative, with forward slashes."""

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        """Content from ``offset`` on (``limit`` bytes at most if given) with the whole file's Stat;
        None when there is no such file."""

    def stat(self, path: str) -> Stat | None:
        """Size and time without the content."""

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        """Creates the file with exactly ``content``, atomically; False when it exists already, with
        any content. After a StorageFault it is unknown whether the file was created; call again to
        find out. Content in pieces is never in memory as a whole; errors of its source are raised,
        and there is no file then.
        """

    def replace(self, path: str, content: bytes) -> None:
        """Creates the file, or replaces its content by ``content``; readers see the one or the
        other, whole. For hints only: it is unknown which of two writers is the last."""

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        """Creates the files one after the other, each as ``put_if_absent`` does, up to the first
        taken name; returns how many it created. A file is visible only after the files that precede
        it. After a StorageFault it is unknown how many there are.
        """

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        """Yields files with paths that start with ``prefix`` (not recursive below the next slash),
        ascending, after ``after``."""

    def list_all(self) -> Iterator[Stat]:
        """Every file of the table."""

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        """Temporary files in the folders of logs and metadata that writes which were cut off have
        left, changed before ``before_ms`` for the last time; none where a store has no such files.
        ``stat`` and ``delete`` take their paths, no listing shows them.
        """

    def delete(self, path: str) -> None:
        """Remove a file; no error when it is not there."""


class Storages(Protocol):
    """Opens the log storage of a table."""

    def open(self, location: str) -> LogStorage:
        """Storage below ``location`` (``s3://bucket/prefix`` or ``file:///path``). Raises
        InvalidRequest for a scheme that is not served."""


class VendedCredentials(msgspec.Struct, frozen=True):
    """Storage credentials for everything below ``prefix`` until ``expires_ms``.

    ``operation`` READ or READ_WRITE; ``config`` holds exactly one cloud's credentials:
    ``s3.access-key-id`` and so on, ``azure.sas-token``, or ``gcs.oauth-token``. ``place`` says
    where the store is (region, endpoint), by the names that Iceberg's clients have for it.
    """

    prefix: str
    operation: Literal["READ", "READ_WRITE"]
    expires_ms: int
    config: Mapping[str, str]
    place: Mapping[str, str] = {}


class CredentialVendor(Protocol):
    """Vends storage credentials to clients, for one location at a time
    (``adapters/credentials.py``)."""

    def vend(
        self, location: str, operation: Literal["READ", "READ_WRITE"], files: Sequence[str] = (), base: str = ""
    ) -> tuple[VendedCredentials, ...]:
        """Credentials for a normalised location; none where none are needed. ``files``: all that
        the client will read, by which the credentials are narrowed as far as the issuer can.
        ``base``: a location above, of which files are read, too. Raises
        StorageFault if the issuer did not give any, PermissionDenied if this deployment vends none
        for such locations.
        """


class Clock(Protocol):
    """Wall clock."""

    def now_ms(self) -> int: ...


class Ids(Protocol):
    """Fresh identifiers."""

    def uuid(self) -> str:
        """A random uuid (version 4)."""

    def obj_id(self) -> str:
        """A fresh, time-ordered id for an obj."""


@dataclass(frozen=True, slots=True)
class World:
    """The ports and the tenant's key space: all that services need of the outside. Built once per
    sandbox."""

    refs: Refs
    objs: Objs
    storages: Storages
    clock: Clock
    ids: Ids
    space: Space


# -- large files -------------------------------------------------------------------------------------------------------


def put_one_by_one(storage: LogStorage, files: Sequence[tuple[str, bytes]]) -> int:
    """``LogStorage.put_in_order`` for storage that gains nothing by doing several at once."""
    for created, (path, content) in enumerate(files):
        if not storage.put_if_absent(path, content):
            return created
    return len(files)


class ForwardingStorage:
    """Forwards all calls to ``inner``: a base for storages that change a few calls."""

    def __init__(self, inner: LogStorage) -> None:
        self._inner = inner

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        return self._inner.read(path, limit, offset)

    def stat(self, path: str) -> Stat | None:
        return self._inner.stat(path)

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        return self._inner.put_if_absent(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._inner.replace(path, content)

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        return self._inner.put_in_order(files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        return self._inner.list(prefix, after)

    def list_all(self) -> Iterator[Stat]:
        return self._inner.list_all()

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        return self._inner.left_overs(before_ms)

    def delete(self, path: str) -> None:
        self._inner.delete(path)


def has_content(storage: LogStorage, path: str, content: bytes) -> bool:
    """Returns whether the file at ``path`` has exactly these bytes. Call it when ``put_if_absent``
    returned False for a new name: the file may be that of an attempt whose answer was lost."""
    file = storage.read(path, len(content) + 1)
    return file is not None and file[0] == content


# -- passes over many rows ---------------------------------------------------------------------------------------------
# Long work in batches: bounded memory, progress, and little to repeat after a crash.


def in_batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yields ``items`` in order, ``size`` at a time; takes no more of them than are yielded.
    (Python 3.11, which is supported, lacks ``itertools.batched``.)"""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def rows_between(refs: Refs, kind: str, after: str = "", upto: str = "", *, stale: bool = False) -> Iterator[Row]:
    """Yields the rows of a kind in the store's order, after the key ``after`` up to the key
    ``upto`` (empty: to the end), so that runs which are cut off reach every row between them.

    If the row of ``upto`` is gone, they go to the end as well: some rows come twice then, but none
    is left out. ``after`` and ``stale`` as for ``Refs.scan``.
    """
    for row in refs.scan(kind, after=after, stale=stale):
        yield row
        if upto and row["key"] == upto:
            return


# -- damaged rows ------------------------------------------------------------------------------------------------------
# A damaged row stops no look at the other rows, and never counts as a missing one. The reader gets
# its key, and decides which work waits (docs/operations.md, A row that cannot be read).


class DamagedRow(msgspec.Struct, frozen=True):
    """A row that cannot be read: its key, and the reason, which names the key too."""

    key: str
    message: str


def parse_row(of: type[R], row: Row, damaged: list[DamagedRow]) -> R | None:
    """Returns the parsed row; None for a damaged one, which it adds to ``damaged``. Raises
    NewerFormat."""
    try:
        return of.from_row(row)
    except UnreadableRow as error:
        damaged.append(DamagedRow(str(row["key"]), error.message))
        return None


def is_readable_as(of: type[StoredRow], row: Row) -> bool:
    """Returns whether a row can be parsed. Raises NewerFormat."""
    return parse_row(of, row, []) is not None


def parse_rows(of: type[R], rows: Iterable[Row], damaged: list[DamagedRow]) -> Iterator[R]:
    """Yields the parsed rows, in their order; adds the damaged ones to ``damaged``. Raises
    NewerFormat."""
    for row in rows:
        parsed = parse_row(of, row, damaged)
        if parsed is not None:
            yield parsed

"""The ratified commits of a table: its HEAD, the tail it carries, their exact bytes, and the files
that readers are promised.

A commit's bytes (I2, I4) are in one of four places:

    staged, not yet published      the staged file, whole, if its bytes are the validated ones
    inline in the row              the entry's bytes, made final for their position
    inline in an obj               the same, from the obj
    published                      ``_delta_log/<v>.json``

When a commit is not where it should be, the published file counts if it carries the same
transaction: an engine may have published it and removed the staged file.

Inline commits get their files by ``materialise`` (design 2.3). Name and bytes were fixed when the
commit was ratified, so any process may write the file, in any order, any number of times; clients
write their own copy in parallel with the request. If the file exists with other bytes, its name is
not given out, since a reader that follows the name must find the ratified bytes: the error is "try
again", until the version is published, which needs no staged file. Replacing the file would need
the right to delete in the lake, which the commit function does not have, and would race with the
file's writer.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.delta.core.head import (
    DROPPED,
    RECOVERING,
    ContentDigest,
    Entry,
    PlacedCommit,
    TableHead,
    digest_of,
    digest_of_pieces,
    final_bytes,
    tail_by_version,
)
from turnstile.delta.undecided import seen_one
from turnstile.store.cache import Lru
from turnstile.store.core.errors import ErrorType, NotFound, StateConflict, StorageFault, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import MAX_VERSION, published_path, staged_path
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import BATCH_GET_MAX, PIECE_BYTES, LogStorage, Stat, World, has_content

_FILES = 10_000
_WRITE_ATTEMPTS = 3

FileSizes = Lru[tuple[str, str], int]
"""Sizes in bytes of the files that exist, by table id and staged name. Files above the floor never
go away, so an entry stays true for as long as it is needed."""


class ContentMissing(StorageFault):
    """A ratified commit's content is not where the HEAD says it is; ``version`` and ``path`` are in
    ``details``."""


class ContentChanged(StorageFault):
    """A staged file does not have the ratified bytes: it was overwritten afterwards."""


# -- HEADs -------------------------------------------------------------------------------------------------------------


def read_head(world: World, table_id: str) -> TableHead:
    """Returns the HEAD as a reader sees it (``undecided.as_folded``), in any state, also a dropped
    table's tombstone: one strongly consistent read, and one more while a large group is decided.
    Raises NotFound.
    """
    head = head_of(world.refs.read(world.space.table(table_id)), table_id)
    return seen_one(world, head) if head.undecided else head


def head_of(row: Row | None, table_id: str) -> TableHead:
    """Returns the HEAD in a row that was read, or returned to a write. Raises NotFound."""
    if row is None:
        raise no_such_table(table_id)
    return TableHead.from_row(row)


def no_such_table(table_id: str) -> NotFound:
    """The error when a table id leads to no HEAD."""
    return NotFound("table", table_id, field="table_id", remedy="load the table by name again")


def check_readable(head: TableHead) -> None:
    """Raises NotFound or StateConflict unless the table's commits may be shown."""
    if head.state == DROPPED:
        raise NotFound("table", head.table_id, field="table_id", remedy="the table was dropped; list the namespace")
    if head.state == RECOVERING:
        raise StateConflict(
            ErrorType.TABLE_NOT_ACTIVE,
            "the coordinator was restored and is catching up with storage",
            remedy="try again shortly",
            state=head.state,
            latest=head.latest,
        )


# -- listing -----------------------------------------------------------------------------------------------------------


class Listing(msgspec.Struct, frozen=True):
    """Commits of one HEAD, ascending and contiguous: one consistent view (I1, I6). ``sizes`` bytes
    of the file under a commit's name, where it is known; ``contents`` inline content that was asked
    for. A commit without content here has its file, or is published.
    """

    head: TableHead
    places: Sequence[PlacedCommit]
    sizes: Mapping[int, int]
    contents: Mapping[int, bytes]


class Earlier(msgspec.Struct, frozen=True):
    """A commit ratified before: its ``place`` while a tail has it, its exact bytes (None: they are
    too many, or the log was cleaned up since; a prefix when not ``whole``) and the ``size`` of its
    published file.
    """

    place: PlacedCommit | None
    raw: bytes | None
    whole: bool
    size: int = 0


class Commits:
    """Reads HEADs and lists their tails. One per sandbox: it remembers which files it has
    written."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        self._limits = limits or Limits()
        self._files = FileSizes(_FILES)

    def head(self, table_id: str) -> TableHead:
        """``read_head``."""
        return read_head(self._world, table_id)

    def of_present_head(
        self, table_id: str, start: int = 0, end: int = MAX_VERSION, *, content: bool = False
    ) -> Listing:
        """As ``of``, for the table's present HEAD."""
        return self.of(self.head(table_id), start, end, content=content)

    def of(self, head: TableHead, start: int = 0, end: int = MAX_VERSION, *, content: bool = False) -> Listing:
        """Returns the commits of ``head`` from ``start`` to ``end``, both included.

        Every inline commit among them has its file when this returns, unless its content is in the
        result (``content``, newest first up to ``winners_bytes``).

        Raises:
            NotFound: the table was dropped; its folder must not be written to any more (I10).
            StateConflict: the HEAD does not yet know all that storage knows (I6).
            StorageFault: a file could not be written; try again.
        """
        check_readable(head)
        places = [place for place in tail_by_version(head) if start <= place.version <= end]
        contents = inline_contents(self._world, head.catalog, places, self._limits.winners_bytes) if content else {}
        files = [place for place in places if place.version not in contents]
        sizes = materialise(self._world, head, files, cache=self._files)
        return Listing(head, places, sizes | {version: len(raw) for version, raw in contents.items()}, contents)

    def earlier(self, table_id: str, version: int) -> Earlier:
        """A version that was ratified before, for the response to a replay (I2, I3). Off the hot
        path. Raises StorageFault."""
        head = self.head(table_id)
        for place in tail_by_version(head):
            if place.version == version:
                large = place.entry.size > self._limits.winners_bytes
                raw = None if large else content_of(self._world, head, place)
                return Earlier(place, raw, whole=raw is not None)
        storage = self._world.storages.open(head.location)
        file = storage.read(published_path(version), limit=self._limits.prefix_bytes)
        if file is None:
            return Earlier(None, None, whole=False)
        raw, stat = file
        return Earlier(None, raw, whole=len(raw) == stat.size, size=stat.size)


def inline_contents(world: World, catalog: str, places: Sequence[PlacedCommit], budget: int) -> dict[int, bytes]:
    """Returns the ratified bytes of inline commits that are not published yet, by version: the
    newest first, as many as fit ``budget`` bytes.

    Leaving one out is never wrong, since every commit has a file or can get one: so a fault while
    objs are read leaves theirs out, and does not fail the request. No HEAD is read: a refusal
    brought the row with it (design 2.1), and only content in objs of ``catalog`` costs one more
    request.
    """
    chosen: list[PlacedCommit] = []
    for place in sorted(places, key=lambda place: place.version, reverse=True):
        if place.published or not place.entry.inline or not (place.entry.data or place.entry.obj):
            continue
        budget -= place.entry.size
        if budget < 0:
            break
        chosen.append(place)
    packed = {place.version: place.entry.data for place in chosen if place.entry.data}
    packed |= _from_objs(world, catalog, [place for place in chosen if not place.entry.data][:BATCH_GET_MAX])
    return {
        place.version: final_bytes(place, unpack(packed[place.version])) for place in chosen if place.version in packed
    }


def _from_objs(world: World, catalog: str, places: Sequence[PlacedCommit]) -> dict[int, bytes]:
    if not places:
        return {}
    try:
        objs = world.objs.get_many(world.space.objs(catalog), [place.entry.obj for place in places])
    except TurnstileError:
        return {}
    return {place.version: objs[place.entry.obj].payload for place in places if place.entry.obj in objs}


# -- content of one commit ---------------------------------------------------------------------------------------------


def pack(content: bytes) -> bytes:
    """Compresses inline content for the row or an obj."""
    return zlib.compress(content, 6)


def unpack(packed: bytes) -> bytes:
    """The content that ``pack`` was given."""
    return zlib.decompress(packed)


def pieces_of(storage: LogStorage, path: str, first: bytes, stat: Stat) -> Iterator[bytes]:
    """Yields the content of a file piece by piece; ``first`` and ``stat`` were just read. Raises
    StorageFault if the file was replaced meanwhile."""
    yield first
    offset = len(first)
    while offset < stat.size:
        file = storage.read(path, PIECE_BYTES, offset)
        if file is None or file[1] != stat or not file[0]:
            raise StorageFault(f"{path} changed while it was read", remedy="try again", path=path)
        yield file[0]
        offset += len(file[0])


def content_of(world: World, head: TableHead, place: PlacedCommit) -> bytes:
    """Returns the exact bytes that version ``place.version`` was ratified with. At most two
    requests; usually one or none. Raises ContentMissing, ContentChanged or StorageFault. For a
    large commit: ``pieces_of_staged``.
    """
    entry = place.entry
    if entry.data:
        return final_bytes(place, unpack(entry.data))
    storage = world.storages.open(head.location)
    if place.published:
        return _published_content(storage, place, published_path(place.version))
    if entry.inline:
        obj = world.objs.get(world.space.objs(head.catalog), entry.obj) if entry.obj else None
        if obj is not None:
            return final_bytes(place, obj.decode_with(unpack))
        return _published_content(storage, place, f"obj {entry.obj}")
    path = staged_path(place.name)
    file = storage.read(path, _most(entry))
    if file is None:
        return _published_content(storage, place, path)
    raw, stat = file
    if not is_same_commit(place, raw):
        raise _content_changed(place, stat)
    return raw


def _published_content(storage: LogStorage, place: PlacedCommit, expected: str) -> bytes:
    """The published file of the same commit. Raises ContentMissing, which names the place that was
    ``expected`` to have the content."""
    file = storage.read(published_path(place.version), _most(place.entry))
    if file is not None and is_same_commit(place, file[0]):
        return file[0]
    raise _missing(place, expected)


def _most(entry: Entry) -> int:
    """How much of a file is read that should hold ``entry``: a byte more than it has, to tell that
    another one is longer. A ticket's final bytes are at most twice the proposed ones, and its last
    line.
    """
    return 2 * entry.size + 1_000 if entry.ticket else entry.size + 1


def _missing(place: PlacedCommit, expected: str) -> ContentMissing:
    return ContentMissing(
        f"the content of version {place.version} is missing: {expected}",
        remedy="restore it, then run 'turnstile repair'",
        version=place.version,
        path=expected,
    )


def _content_changed(place: PlacedCommit, stat: Stat) -> ContentChanged:
    size = place.entry.size
    was = f"was ratified with {size}" if stat.size != size else "was ratified with other content"
    return ContentChanged(
        f"staged file {place.name} has {stat.size} bytes but {was}",
        remedy="restore the file as it was ratified, then run 'turnstile repair'",
        version=place.version,
        path=stat.path,
    )


# -- content that is too large to be held as a whole -------------------------------------------------------------------


def is_large(place: PlacedCommit) -> bool:
    """Whether the commit is a staged file of more than a piece, not published yet."""
    entry = place.entry
    return not (entry.inline or place.published) and entry.size > PIECE_BYTES


def pieces_of_staged(world: World, head: TableHead, place: PlacedCommit) -> Iterator[bytes] | None:
    """Returns the ratified bytes of a large commit, piece by piece; None if its file is gone, and
    the log holds the commit.

    Raises ContentMissing at once, StorageFault and ContentChanged also at the end: results made
    from the pieces must not count before all were read.
    """
    storage = world.storages.open(head.location)
    path = staged_path(place.name)
    file = storage.read(path, PIECE_BYTES)
    if file is not None:
        return _verify(storage, place, *file)
    if published_is_same(storage, place):
        return None
    raise _missing(place, path)


def _verify(storage: LogStorage, place: PlacedCommit, first: bytes, stat: Stat) -> Iterator[bytes]:
    check = _PieceCheck(place, place.entry.digest)
    for piece in pieces_of(storage, stat.path, first, stat):
        check.take(piece)
        yield piece
    if not check.is_match():
        raise _content_changed(place, stat)


def published_is_same(storage: LogStorage, place: PlacedCommit) -> bool:
    """Whether ``_delta_log`` holds the commit, as ``is_same_commit``, in bounded memory. Where the
    row has no digest (an earlier release), that of the staged file counts while it is there."""
    file = storage.read(published_path(place.version), PIECE_BYTES)
    if file is None or file[1].size != place.entry.size:
        return False
    digest = place.entry.digest
    if not digest and (staged := storage.read(staged_path(place.name), PIECE_BYTES)) is not None:
        digest = digest_of_pieces(pieces_of(storage, staged[1].path, *staged))
    check = _PieceCheck(place, digest)
    for piece in pieces_of(storage, file[1].path, *file):
        check.take(piece)
    return check.is_match()


class _PieceCheck:
    """``is_same_commit`` of content that comes in pieces. The first one has the commit's first line
    (``Limits.first_line_bytes``)."""

    def __init__(self, place: PlacedCommit, digest: int) -> None:
        self._entry = place.entry
        self._expected = digest
        self._txn: str | None = None
        self._size = 0
        self._digest = ContentDigest()

    def take(self, piece: bytes) -> None:
        if self._txn is None:
            self._txn = transaction_of(piece)
        self._size += len(piece)
        self._digest.update(piece)

    def is_match(self) -> bool:
        same = self._txn == self._entry.txn and self._size == self._entry.size
        return same and self._expected in (0, self._digest.value())


def is_same_commit(place: PlacedCommit, raw: bytes) -> bool:
    """Whether ``raw`` are the ratified bytes, as far as the row knows: by its transaction; by its
    size, except for a ticket; and by its digest, if it is a staged commit that was read whole."""
    entry = place.entry
    if transaction_of(raw) != entry.txn or not (entry.ticket or len(raw) == entry.size):
        return False
    return not entry.digest or digest_of(raw) == entry.digest


class _Info(msgspec.Struct):
    txnId: str = ""


class _FirstLine(msgspec.Struct):
    commitInfo: _Info | None = None


def transaction_of(raw: bytes) -> str:
    """The txn id on a commit's first line, or "" when there is none."""
    try:
        first = msgspec.json.decode(raw.partition(b"\n")[0], type=_FirstLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return first.commitInfo.txnId if first.commitInfo else ""


# -- files of inline commits -------------------------------------------------------------------------------------------


def materialise(
    world: World,
    head: TableHead,
    places: Iterable[PlacedCommit],
    *,
    cache: FileSizes | None = None,
    workers: int = 8,
    faults: Faults = no_faults,
) -> dict[int, int]:
    """Makes sure that every inline, unpublished commit of ``places`` has its file.

    Returns the size in bytes of the file under its name by version, for every place but published
    tickets, whose final size the row no longer knows. Raises ContentMissing if an inline commit's
    bytes are gone, StorageFault if a file could not be written, or holds other bytes.

    Args:
        cache: files that need no second look; keep one for the life of a sandbox.
        workers: how many files are written at once (1: strictly one after the other).
    """
    storage = world.storages.open(head.location)
    sizes: dict[int, int] = {}
    missing: list[PlacedCommit] = []
    for place in places:
        if place.entry.inline and not place.published:
            size = cache.get((head.table_id, place.name)) if cache is not None else None
            if size is None:
                missing.append(place)
            else:
                sizes[place.version] = size
        elif not (place.published and place.entry.ticket):
            sizes[place.version] = place.entry.size

    def write(place: PlacedCommit) -> int:
        content = content_of(world, head, place)
        _put(storage, staged_path(place.name), content)
        faults("materialise.put")
        return len(content)

    if len(missing) <= 1 or workers <= 1:
        written = [write(place) for place in missing]
    else:
        with ThreadPoolExecutor(min(workers, len(missing))) as pool:
            written = list(pool.map(write, missing))
    for place, size in zip(missing, written, strict=True):
        sizes[place.version] = size
        if cache is not None:
            cache.put((head.table_id, place.name), size)
    return sizes


def _put(storage: LogStorage, path: str, content: bytes) -> None:
    """Creates the file, or sees that it holds ``content``; several times, as a client's own copy
    may still be growing."""
    for _ in range(_WRITE_ATTEMPTS):
        if storage.put_if_absent(path, content) or has_content(storage, path, content):
            return
    raise StorageFault(
        f"{path} holds other bytes than were ratified under this name",
        remedy="try again: publication, which follows at once, needs no staged file; find the other writer of this "
        "folder",
        retry_after_ms=200,
        path=path,
    )

"""The two sides of a table with a HEAD and a log that contradict each other, and copies of the side
that is not kept (``delta.repair``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from turnstile.delta.commits import ContentChanged, ContentMissing, content_of, is_large, pieces_of, pieces_of_staged
from turnstile.delta.core.head import PlacedCommit, TableHead, digest_of, digest_of_pieces, tail_by_version
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.names import LOG, aside_path, published_path, staged_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, Stat, World

_COMMIT: Final = re.compile(r"\d{20}\.json")
_OF_A_VERSION: Final = re.compile(r"(\d{20})\..+")


class Commit(msgspec.Struct, frozen=True):
    """One side's commit as ``version``, the first in question, and the last version of that side
    (``up_to``).

    ``digest`` of its bytes; ``operation``, ``engine`` and ``txn_id`` as its commitInfo has them;
    ``in_commit_timestamp`` (ms); ``written`` when it was ratified, or its file was written (ms).
    Unknown values are None.
    """

    version: int
    up_to: int
    size: int | None = None
    digest: str | None = None
    txn_id: str | None = None
    operation: str | None = None
    engine: str | None = None
    in_commit_timestamp: int | None = None
    written: int | None = None
    path: str | None = None


class Sides(msgspec.Struct, frozen=True):
    """HEAD and log from the version on at which they contradict each other. Without ``head``, the
    HEAD ends before."""

    head: Commit | None
    log: Commit


def ratified_from(world: World, head: TableHead, place: PlacedCommit) -> Commit:
    """The HEAD's commits from ``place`` on. Raises ContentMissing, ContentChanged and
    StorageFault."""
    commit = without_content(head, place)
    if not is_large(place):
        content = content_of(world, head, place)
        return _describe(content, msgspec.structs.replace(commit, size=len(content), digest=_text(digest_of(content))))
    pieces = pieces_of_staged(world, head, place)
    if pieces is None:
        pieces = _pieces(world.storages.open(head.location), published_path(place.version))
    return msgspec.structs.replace(commit, digest=_text(digest_of_pieces(pieces)))


def without_content(head: TableHead, place: PlacedCommit) -> Commit:
    """As ``ratified_from``, as far as the row knows."""
    entry = place.entry
    return Commit(
        place.version, head.latest, size=entry.size, txn_id=entry.txn, operation=entry.operation or None,
        in_commit_timestamp=place.ict, written=entry.ratified_ms,
    )  # fmt: skip


def published_as(storage: LogStorage, version: int, *, digest: bool = True) -> Commit:
    """The log's commit as ``version``; without a path if it has no such file. ``digest`` False
    reads no more than its first piece. Raises StorageFault."""
    path = published_path(version)
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        return Commit(version, version)
    first, stat = file
    value = _text(digest_of_pieces(pieces_of(storage, path, first, stat))) if digest else None
    return _describe(first, Commit(version, version, size=stat.size, digest=value, written=stat.modified_ms, path=path))


def with_later(storage: LogStorage, commit: Commit) -> Commit:
    """The log's ``commit`` with how far the log goes on. One listing."""
    names = [stat.path.removeprefix(LOG) for stat in log_after(storage, commit.version)]
    up_to = max((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=commit.version)
    return msgspec.structs.replace(commit, up_to=up_to)


class _Info(msgspec.Struct):
    txnId: str | None = None
    operation: str | None = None
    engineInfo: str | None = None
    inCommitTimestamp: int | None = None


class _FirstLine(msgspec.Struct):
    commitInfo: _Info = msgspec.field(default_factory=_Info)


def _describe(first: bytes, commit: Commit) -> Commit:
    """``commit`` with the facts of its first line, as far as that can be read."""
    try:
        info = msgspec.json.decode(first.partition(b"\n")[0], type=_FirstLine).commitInfo
    except (msgspec.DecodeError, UnicodeDecodeError):
        return commit
    return msgspec.structs.replace(
        commit,
        txn_id=info.txnId,
        operation=info.operation,
        engine=info.engineInfo,
        in_commit_timestamp=info.inCommitTimestamp,
    )


def _text(digest: int) -> str:
    return f"{digest:016x}"


def _pieces(storage: LogStorage, path: str) -> Iterator[bytes]:
    """A file in pieces. Raises StorageFault if it is gone, or changes meanwhile."""
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        raise StorageFault(f"{path} is gone", remedy="run the comparison again", path=path)
    return pieces_of(storage, path, *file)


# -- copies ------------------------------------------------------------------------------------------------------------


def log_after(storage: LogStorage, version: int) -> list[Stat]:
    """Every file of the log that belongs to ``version`` or a later one: commits, checksums,
    checkpoints. One listing."""
    matches = ((stat, _OF_A_VERSION.fullmatch(stat.path.removeprefix(LOG))) for stat in storage.list(LOG))
    return [stat for stat, match in matches if match and int(match[1]) >= version]


def copy_of(storage: LogStorage, path: str) -> str:
    """Copies a file of the log aside and returns the copy's path. Raises StorageFault."""
    digest = digest_of_pieces(_pieces(storage, path))
    return _keep(storage, path.removeprefix(LOG), digest, _pieces(storage, path))


def copies_of_unpublished(world: World, head: TableHead) -> tuple[str, ...]:
    """Writes the content of every version above the floor aside, as far as it still exists and is
    not in the log, and returns the copies' paths. Raises StorageFault."""
    storage = world.storages.open(head.location)
    copies = []
    for place in tail_by_version(head):
        if place.version <= head.floor:
            continue
        try:
            if is_large(place):
                pieces = pieces_of_staged(world, head, place)
                digest = place.entry.digest or digest_of_pieces(_pieces(storage, staged_path(place.name)))
                if pieces is not None:
                    copies.append(_keep(storage, place.name, digest, pieces))
            else:
                content = content_of(world, head, place)
                copies.append(_keep(storage, place.name, digest_of(content), (content,)))
        except (ContentMissing, ContentChanged):
            continue  # nobody has it
    return tuple(copies)


def _keep(storage: LogStorage, name: str, digest: int, pieces: Iterable[bytes]) -> str:
    path = aside_path(name, _text(digest))
    if not storage.put_if_absent(path, pieces) and digest_of_pieces(_pieces(storage, path)) != digest:
        raise StorageFault(f"{path} holds other bytes than its name says", remedy="move it away", path=path)
    return path

"""The changes of the commits after a version: the newest action of each logical file, and the
newest protocol and metadata.

Source: Delta protocol, "Action Reconciliation".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec

from turnstile.delta.commits import content_of, is_large, is_same_commit, pieces_of, pieces_of_staged, transaction_of
from turnstile.delta.core.actions import Add
from turnstile.delta.core.head import PlacedCommit, TableHead, tail_by_version
from turnstile.delta.core.segments import vector_id
from turnstile.delta.core.soundness import damage_at, missing, size_fault
from turnstile.delta.log.in_force import InForce
from turnstile.delta.log.lines import DamagedLog, actions, commit_lines, where_of
from turnstile.maintenance.file_actions import actions_of_line
from turnstile.planning.core.roots import Key
from turnstile.store.core.names import published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, World, in_batches

MAX_CHANGES: Final = 500_000
"""File actions that are held at once; a span of commits with more is left to a pass over the whole
state."""
STAMP_BYTES: Final = 4_096
READERS: Final = 16
"""Files that are read at once."""


T = TypeVar("T")
R = TypeVar("R")


class TooMany(Exception):
    """The commits have more file actions than are held at once."""


class Changes(msgspec.Struct):
    """The changes. ``files``: by logical file the newest action; None: it was removed."""

    files: dict[Key, Add | None]
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def adds(self) -> list[Add]:
        """Files that are there now."""
        return [add for add in self.files.values() if add is not None]

    @property
    def removes(self) -> list[Key]:
        """Files that are not there any more."""
        return [key for key, add in self.files.items() if add is None]


def at_once(call: Callable[[T], R], items: Sequence[T], readers: int) -> list[R]:
    """Returns the results of ``call`` for the items, ``readers`` at a time; one: in this thread."""
    if readers <= 1 or len(items) <= 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(readers, len(items))) as pool:
        return list(pool.map(call, items))


def changes_of(world: World, head: TableHead, first: int, last: int, readers: int = READERS) -> Changes:
    """Returns the changes of the versions from ``first`` to ``last`` of a table: published ones
    from its log, others from its HEAD.

    Raises:
        TooMany: there are more changes than the limit.
        UnsupportedTable: a commit is missing or cannot be read.
        StorageFault: a commit's bytes are not the ratified ones.
    """
    changes = Changes({})
    force = InForce()
    for version, content in commits_of(world, head, first, last, readers):
        _apply(changes, force, content, where_of(version))
    force.check()
    changes.protocol = force.actions.get("protocol")
    changes.metadata = force.actions.get("metaData")
    return changes


def commits_of(
    world: World, head: TableHead, first: int, last: int, readers: int = READERS
) -> Iterator[tuple[int, Iterable[bytes]]]:
    """Yields the versions from ``first`` to ``last`` with the lines of their commits; ``readers``
    of them are opened at once. A published commit is checked by the rules of
    ``turnstile.delta.core.soundness`` (I24). Raises as ``changes_of``.
    """
    storage = world.storages.open(head.location)
    places = {place.version: place for place in tail_by_version(head)}
    for batch in in_batches(range(first, last + 1), max(1, readers)):
        opened = at_once(
            lambda version: open_commit(world, storage, head, version, places.get(version)), batch, readers
        )
        for version, pieces in zip(batch, opened, strict=True):
            yield version, commit_lines(pieces, version, info=version > head.first)


def open_commit(
    world: World, storage: LogStorage, head: TableHead, version: int, place: PlacedCommit | None
) -> Iterable[bytes]:
    """Returns the pieces of a ratified commit, of which the first was read. ``place``: in the tail
    of ``head``, None where it left that. Raises UnsupportedTable for a published commit that is
    missing or damaged, StorageFault where the bytes are not the ratified ones."""
    if place is not None and not place.published:
        if not is_large(place):
            return [content_of(world, head, place)]
        pieces = pieces_of_staged(world, head, place)
        if pieces is not None:
            return pieces
    path = published_path(version)
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        raise DamagedLog(missing(version))
    if place is not None:
        fault = size_fault(version, file[1].size, None if place.entry.ticket else place.entry.size or None)
        whole = len(file[0]) == file[1].size
        if fault is None and not (
            is_same_commit(place, file[0]) if whole else transaction_of(file[0]) == place.entry.txn
        ):
            fault = damage_at(version, f"is not the commit of transaction {place.entry.txn}, which was ratified")
        if fault is not None:
            raise DamagedLog(fault)
    return pieces_of(storage, path, *file)


def _apply(changes: Changes, force: InForce, content: Iterable[bytes], where: str) -> None:
    """Applies one commit. In one commit a logical file has one action: the add of a file with
    another deletion vector is of another one."""
    for line in content:
        if not line.strip():
            continue
        add, remove = actions_of_line(line, where)
        action = add or remove
        if action is not None:
            changes.files[action.path, vector_id(action.deletionVector)] = add
            if len(changes.files) > MAX_CHANGES:
                raise TooMany
        elif b'"protocol"' in line or b'"metaData"' in line:
            for name, body in actions([line], where):
                if name in ("protocol", "metaData"):
                    force.apply(name, body, where)


def stamp_of(storage: LogStorage, version: int) -> bytes | None:
    """Returns an identity of a published version, different from that of another history: a digest
    of the beginning of its commit, which has its transaction and time. None if it is not there."""
    file = storage.read(published_path(version), STAMP_BYTES)
    if file is None:
        return None
    content, stat = file
    return hashlib.blake2b(content + str(stat.size).encode(), digest_size=16).digest()

"""Which files of a log make the state of a version: a complete checkpoint, and the commits after
it.

Sources: Delta protocol, "Checkpoints", "Checkpoint Naming Scheme", "Action Reconciliation",
"Deletion Vectors" (derived fields).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

import msgspec

from turnstile.delta.core.actions import DeletionVector

KEY_BYTES: Final = 16
"""Bytes of a digest that stands for a logical file: among 2**40 files, two have the same one with a
chance of 2**-49."""

_CLASSIC: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART: Final = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_UNIQUE: Final = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Za-z-]{1,100}\.(?:json|parquet)")


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint of ``version``: the names in ``_delta_log`` of its files; several if it is a
    multi-part one. Sidecars are named inside."""

    version: int
    names: tuple[str, ...]


def complete_checkpoints(sizes: Mapping[str, int]) -> list[Checkpoint]:
    """Returns the complete checkpoints among files of one version, given by name and size: unique
    names first, which follow the V2 spec, then the classic one, then checkpoints of several parts.
    Empty files do not count: writers that crashed left them.
    """
    parts: dict[tuple[int, int], set[str]] = {}
    single: list[tuple[bool, str, int]] = []
    for name, size in sizes.items():
        if size == 0:
            continue
        if part := _PART.fullmatch(name):
            if 1 <= int(part[2]) <= int(part[3]):
                parts.setdefault((int(part[1]), int(part[3])), set()).add(name)
        elif match := _CLASSIC.fullmatch(name) or _UNIQUE.fullmatch(name):
            single.append((_CLASSIC.fullmatch(name) is not None, name, int(match[1])))
    complete = [Checkpoint(version, (name,)) for _, name, version in sorted(single)]
    whole = [(version, count) for (version, count), names in parts.items() if len(names) == count]
    return complete + [Checkpoint(version, tuple(sorted(parts[version, count]))) for version, count in sorted(whole)]


def parts_with(name: str) -> list[str]:
    """Returns the names of all parts of the checkpoint of which ``name`` is a part; none if it is
    no part."""
    part = _PART.fullmatch(name)
    if part is None or int(part[3]) > 10_000:
        return []
    return [f"{part[1]}.checkpoint.{number:010d}.{part[3]}.parquet" for number in range(1, int(part[3]) + 1)]


def starts(checkpoints: Iterable[int], commits: Collection[int], version: int) -> Iterator[int]:
    """Yields the versions of checkpoints that a state of ``version`` can start with, the newest
    first: every commit after it is there. -1 at last, the empty table before version 0, if all
    commits are there.
    """
    tried = sorted({at for at in checkpoints if 0 <= at <= version}, reverse=True)
    first = version + 1
    while first - 1 in commits:
        first -= 1
    yield from (at for at in tried if at >= first - 1)
    if first == 0:
        yield -1


def vector_id(vector: DeletionVector | None) -> str:
    """Returns the unique id of a deletion vector; empty for none."""
    if vector is None:
        return ""
    offset = "" if vector.offset is None else f"@{vector.offset}"
    return f"{vector.storageType}{vector.pathOrInlineDv}{offset}"


def file_key(path: str, vector: str) -> bytes:
    """Returns the key of a logical file, ``(path, deletionVector.uniqueId)``, as a digest of fixed
    size."""
    return blake2b(f"{path}\0{vector}".encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()

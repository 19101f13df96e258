"""``_last_checkpoint``: the file that says where a log's newest checkpoint is.

Source: Delta protocol, "Last Checkpoint File Schema" and "JSON checksum".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import md5
from typing import Any, Final
from urllib.parse import quote

import msgspec

from turnstile.store.core.names import LOG

POINTER: Final = f"{LOG}_last_checkpoint"
POINTER_BYTES: Final = 16 * 1024 * 1024
"""Bytes of it that are read."""
CHECKSUM: Final = "checksum"


class WrittenCheckpoint(msgspec.Struct, frozen=True):
    """The counts of a checkpoint: ``actions`` in it and its sidecars, ``adds`` of them ``add``;
    ``size_bytes`` of all its files. ``main``, ``main_bytes`` and ``main_ms``: name, size and time
    of its own file; ``unique`` if the name is a unique one.
    """

    version: int
    actions: int
    adds: int
    size_bytes: int
    main: str
    main_bytes: int
    main_ms: int
    unique: bool


def pointer_of(written: WrittenCheckpoint) -> bytes:
    """Returns the content of ``_last_checkpoint`` that leads to a checkpoint."""
    members: dict[str, Any] = {
        "version": written.version,
        "size": written.actions,
        "sizeInBytes": written.size_bytes,
        "numOfAddFiles": written.adds,
    }
    if written.unique:
        main = {"path": written.main, "sizeInBytes": written.main_bytes, "modificationTime": written.main_ms}
        members["v2Checkpoint"] = main
    return msgspec.json.encode({**members, CHECKSUM: checksum_of(members)})


class Pointed(msgspec.Struct, frozen=True):
    """The checkpoint that a ``_last_checkpoint`` leads to: its ``version``, how many ``add`` it
    has, and its file, if it has a unique name; None: it does not say."""

    version: int
    adds: int | None = None
    name: str | None = None


def pointed_checkpoint(content: bytes) -> Pointed | None:
    """Returns the checkpoint of a ``_last_checkpoint``; None if it cannot be read, or contradicts
    its own checksum."""
    try:
        members = msgspec.json.decode(content, type=dict[str, Any])
        whole = members.get(CHECKSUM) in (None, checksum_of(members))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    version = members.get("version")
    adds = members.get("numOfAddFiles")
    if not whole or type(version) is not int:
        return None
    main = members.get("v2Checkpoint")
    name = main.get("path") if isinstance(main, dict) else None
    return Pointed(version, adds if type(adds) is int else None, name if isinstance(name, str) else None)


def pointed_version(content: bytes) -> int | None:
    """Returns the version that a ``_last_checkpoint`` names; None if it cannot be read, or is
    damaged."""
    pointed = pointed_checkpoint(content)
    return None if pointed is None else pointed.version


def checksum_of(members: dict[str, Any]) -> str:
    """Returns the checksum of a ``_last_checkpoint``; its member ``checksum`` does not count."""
    given = {name: value for name, value in members.items() if name != CHECKSUM}
    return md5(canonical(given).encode(), usedforsecurity=False).hexdigest()


def canonical(value: Any) -> str:
    """Returns the canonical form of JSON: paths and scalars, ``"a"+0="v"``, in the order of the
    paths' bytes."""
    return ",".join(f"{path}={scalar}" for path, scalar in sorted(_paths(value, ""), key=lambda pair: pair[0].encode()))


def _paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _paths(member, f"{path}+{_text(name)}" if path else _text(name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _paths(member, f"{path}+{index}" if path else str(index))
    elif isinstance(value, str):
        yield path, _text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON")
    else:
        yield path, msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'

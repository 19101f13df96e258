"""Answers of the coordinator. Exactly one of these, never a guess."""

from __future__ import annotations

from typing import Literal

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.positions import Positioned


class Ratified(msgspec.Struct, frozen=True, tag=True):
    """The proposal is version ``place.version`` now; ``replayed`` when it already was (I3). ``head`` is the row that
    says so, after the write (None where the decision was made from a row that the caller has)."""

    place: Positioned | None
    version: int
    latest: int
    metadata: str
    replayed: bool = False
    head: TableHead | None = None


class Conflict(msgspec.Struct, frozen=True, tag=True):
    """Somebody else is that version. ``winners`` is what the tail knows of them, newest first; versions up to
    ``published`` are in ``_delta_log``."""

    latest: int
    published: int
    winners: tuple[Positioned, ...]
    because: Literal["version", "metadata", "application"] = "version"


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Not possible whatever the version; ``kind`` is the error type, ``details`` data for programs."""

    kind: str
    message: str
    remedy: str
    field: str | None = None
    details: dict[str, int | str | None] = {}


class Recall(msgspec.Struct, frozen=True, tag=True):
    """The row cannot tell whether this identity was ratified before: look in the identity index, then ask again."""

    tail_from: int


class Spill(msgspec.Struct, frozen=True, tag=True):
    """The row has no room for the inline bytes: write them as an obj, then ask again with a reference."""


Decision = Ratified | Conflict | Refused | Recall | Spill

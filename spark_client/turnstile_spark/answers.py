"""What the server answers, as Python values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Commit:
    """A ratified commit. ``timestamp``: in-commit timestamp, ms since the epoch; ``modified``: ms since the epoch, the
    modification time every client reports for its file; ``name``: file under ``_delta_log/_staged_commits``;
    ``size``: bytes, None where the server
    does not tell; ``kind``: "staged" or "inline"; ``published``: whether ``_delta_log`` has it. Source: the server.
    """

    version: int
    timestamp: int
    name: str
    size: int | None
    modified: int
    kind: str
    txn_id: str | None
    operation: str | None
    changed: str | None
    published: bool

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Commit:
        """From a ``Commit`` of the HTTP API."""
        return cls(
            version=answer["version"],
            timestamp=answer["timestamp"],
            name=answer["name"],
            size=answer.get("size"),
            modified=answer["modified"],
            kind=answer["kind"],
            txn_id=answer.get("txn_id"),
            operation=answer.get("operation"),
            changed=answer.get("changed"),
            published=bool(answer.get("published", False)),
        )


@dataclass(frozen=True, slots=True)
class Tail:
    """The ratified commits that a table still carries, ascending, with the state they were read in."""

    commits: tuple[Commit, ...]
    latest: int
    floor: int

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Tail:
        """From any answer with ``commits``, ``latest`` and ``floor``."""
        return cls(tuple(Commit.read(c) for c in answer["commits"]), answer["latest"], answer["floor"])


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as loaded by name: identity, location, metadata and tail in one consistent view. ``location`` has the
    scheme that Spark uses. ``asked``: ``time.time()`` in ms, taken before the request was sent. ``pinned``: it is a clone,
    which shows version ``tail.latest`` of the log of another table and no other."""

    name: str
    table_id: str
    location: str
    etag: str
    created: int
    metadata: dict[str, Any]
    tail: Tail
    asked: float = field(compare=False)
    pinned: bool = False

    @classmethod
    def read(cls, answer: dict[str, Any], asked: float) -> TableState:
        """From the answer to a load by name."""
        return cls(
            name=answer["name"],
            table_id=answer["table_id"],
            location=spark_location(answer["location"]),
            etag=answer["etag"],
            created=answer.get("created") or 0,
            metadata=answer["metadata"],
            tail=Tail.read(answer),
            asked=asked,
            pinned=answer.get("state") == "pinned",
        )


@dataclass(frozen=True, slots=True)
class Head:
    """The HEAD of a table. ``latest``: newest ratified version; ``floor``: version up to which all is published;
    ``timestamp``: in-commit timestamp of latest, ms; ``bytes``: what the row carries; ``tail``: as :class:`Tail`."""

    table_id: str
    state: str
    latest: int
    floor: int
    timestamp: int | None
    etag: str
    location: str
    bytes: int
    row_id_high_water_mark: int | None
    tail: tuple[Commit, ...]

    @classmethod
    def read(cls, answer: dict[str, Any]) -> Head:
        """From the answer to ``GET /v1/tables/{id}/head``."""
        return cls(
            table_id=answer["table_id"],
            state=answer["state"],
            latest=answer["latest"],
            floor=answer["floor"],
            timestamp=answer.get("timestamp"),
            etag=answer["etag"],
            location=answer["location"],
            bytes=answer.get("bytes") or 0,
            row_id_high_water_mark=answer.get("row_id_high_water_mark"),
            tail=tuple(Commit.read(c) for c in answer["tail"]),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a proposal: "ratified" (with ``version``), "never", or "open" (it may still land)."""

    outcome: str
    version: int | None
    latest: int


def spark_location(location: str) -> str:
    """The location as Spark reads it: Hadoop's S3 file system has the scheme ``s3a``."""
    return "s3a://" + location.removeprefix("s3://") if location.startswith("s3://") else location

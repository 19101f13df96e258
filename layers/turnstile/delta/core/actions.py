"""The actions of a commit, line by line: required members, their types and their ranges.

Members and actions that the protocol does not name pass, as it says: readers ignore them. Source:
Delta protocol, "Actions" and "Deletion Vectors"; numbers are Java's, because Delta's readers are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from turnstile.store.core.errors import InvalidCommit
from turnstile.store.core.names import MAX_VERSION

MAX_DEPTH: Final = 100
"""The deepest nesting of a line. JSON readers give up at depths that depend on their stack: a
ratified line must be readable wherever it is published or loaded, or it would brick the table
(I11).
"""

NOT_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)

_REFUSED: Final = {"sidecar", "checkpointMetadata"}
"""Actions of checkpoints."""

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.\-]*:"
NO_URI: Final = re.compile(
    r"[\x00-\x20\"<>\\^`{|}\[\]\x7f-\x9f]|\s|%(?![0-9A-Fa-f]{2})"  # characters
    r"|#.*#"  # two fragments
    rf"|^(?!{_SCHEME})[^/?#:]*:"  # before a colon, and no scheme
    rf"|^(?:{_SCHEME})?//$"  # no authority
)
"""Characters that Java's URI, which Delta's readers make of every path, does not take."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
SmallCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Scalar = str | bool | int | float | None


class DeletionVector(msgspec.Struct, frozen=True):
    """Where the deletion vector of a file is, and how many rows it removes."""

    storageType: Literal["u", "i", "p"]
    pathOrInlineDv: Name
    sizeInBytes: SmallCount
    cardinality: Count
    offset: SmallCount | None = None

    def __post_init__(self) -> None:
        text = self.pathOrInlineDv
        kind = self.storageType
        if kind == "p":
            if not _ABSOLUTE.match(text) or NO_URI.search(text):
                raise ValueError("pathOrInlineDv must be an absolute URI")
        elif not _Z85.fullmatch(text[-20:] if kind == "u" else text) or (kind == "u" and len(text) < 20):
            raise ValueError("pathOrInlineDv must be encoded in base 85")
        if kind == "i" and self.offset is not None:
            raise ValueError("an inline deletion vector has no offset")


_ABSOLUTE: Final = re.compile(rf"{_SCHEME}/.")
_Z85: Final = re.compile(r"(?:[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{5})+")


class Add(msgspec.Struct, gc=False):
    """A data file that is part of the table from this version on."""

    path: Name
    partitionValues: dict[str, str | None]
    size: Count
    modificationTime: Long
    dataChange: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None
    baseRowId: Count | None = None
    defaultRowCommitVersion: Count | None = None
    clusteringProvider: str | None = None


class Remove(msgspec.Struct):
    """A data file that is part of the table no more."""

    path: Name
    dataChange: bool
    deletionTimestamp: Long | None = None
    extendedFileMetadata: bool | None = None
    partitionValues: dict[str, str | None] | None = None
    size: Count | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletionVector: DeletionVector | None = None
    baseRowId: Count | None = None
    defaultRowCommitVersion: Count | None = None


class Cdc(msgspec.Struct):
    """A file with the rows that the version changed."""

    path: Name
    partitionValues: dict[str, str | None]
    size: Count
    dataChange: bool = False
    tags: dict[str, str | None] | None = None
    stats: str | None = None


class Txn(msgspec.Struct):
    """How far a streaming application has come."""

    appId: Name
    version: Long
    lastUpdated: Long | None = None


class DomainMetadata(msgspec.Struct):
    """The configuration of a metadata domain, or that it has none any more."""

    domain: Name
    configuration: str
    removed: bool


class Participant(msgspec.Struct):
    """A table of a transaction, and the version that the transaction makes of it."""

    tableId: Name
    version: Count


class TransactionGroup(msgspec.Struct):
    """The tables that were committed together, in each of their commits. Of a proposal that is not
    settled (delta-io/delta 7437, 7438); nothing is decided by it here."""

    transactionId: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    participants: Annotated[list[Participant], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        tables = [participant.tableId for participant in self.participants]
        if len(set(tables)) < len(tables):
            raise ValueError("participants must name each table once")


class Format(msgspec.Struct):
    """How data files are encoded."""

    provider: Name
    options: dict[str, str] = {}


class Metadata(msgspec.Struct):
    """The ``metaData`` action."""

    id: Name
    format: Format
    schemaString: str
    partitionColumns: list[str]
    configuration: dict[str, str]
    name: str | None = None
    description: str | None = None
    createdTime: Long | None = None


class Protocol(msgspec.Struct):
    """The features that readers and writers must support."""

    minReaderVersion: int
    minWriterVersion: int
    readerFeatures: list[str] = []
    writerFeatures: list[str] = []


class CommitInfo(msgspec.Struct):
    """Provenance. Any JSON may be in it, but Delta's readers need members of these names in these
    types."""

    txnId: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    inCommitTimestamp: Annotated[int, msgspec.Meta(gt=0, le=MAX_VERSION)]
    version: Long | None = None
    timestamp: Long | None = None
    readVersion: Long | None = None
    isBlindAppend: bool | None = None
    operation: Scalar = None
    userId: Scalar = None
    userName: Scalar = None
    clusterId: Scalar = None
    isolationLevel: Scalar = None
    userMetadata: Scalar = None
    engineInfo: Scalar = None
    operationParameters: dict[str, Any] | None = None
    operationMetrics: dict[str, Any] | None = None
    tags: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    notebook: dict[str, Any] | None = None


# -- lines ------------------------------------------------------------------------------------------------------------

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TYPES: Final[dict[str, Any]] = {
    "add": Add,
    "remove": Remove,
    "cdc": Cdc,
    "txn": Txn,
    "domainMetadata": DomainMetadata,
    "metaData": Metadata,
    "protocol": Protocol,
    "commitInfo": CommitInfo,
    "transactionGroup": TransactionGroup,
}
_DECODERS: Final = {name: msgspec.json.Decoder(type) for name, type in _TYPES.items()}


class _KnownAdd(Add, forbid_unknown_fields=True, gc=False):
    """An add with members of the protocol only."""


class _AddLine(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    add: _KnownAdd


class _KnownRemove(Remove, forbid_unknown_fields=True):
    """A remove with members of the protocol only."""


class _RemoveLine(msgspec.Struct, forbid_unknown_fields=True):
    remove: _KnownRemove


_ADD_LINE: Final = msgspec.json.Decoder(_AddLine)
_REMOVE_LINE: Final = msgspec.json.Decoder(_RemoveLine)

_LONE_RETURN: Final = re.compile(rb"\r(?!\n)")


def lines_of(raw: bytes, *, whole: bool) -> list[bytes]:
    """The lines of a commit, as Delta's readers split it; without the last one, which may be cut,
    unless ``whole``.

    Raises:
        InvalidCommit: there is none; or a carriage return is not before a line feed. To JSON it is
            white space, to Spark's
            and Java's readers the end of a line, in the middle of an action.
    """
    lines = raw.split(b"\n")
    if not whole or lines[-1] == b"":
        lines.pop()
    if not lines:
        raise InvalidCommit("the commit is empty", field="content")
    if b"\r" in raw:
        for number, line in enumerate(lines, start=1):
            if _LONE_RETURN.search(line + b"\n"):
                problem = f"line {number}: a carriage return ends a line for Delta's readers"
                raise InvalidCommit(problem, field="content", remedy="write each action on one line that ends in \\n")
    return lines


def actions_of(lines: list[bytes]) -> Iterator[tuple[str, Any]]:
    """Yields name and content of each line's action: a struct of this module, without members that
    readers ignore; None for an action that the protocol does not name. Raises InvalidCommit, naming
    line and member.
    """
    yield read_action(lines[0], 1)
    for number, line in enumerate(lines[1:], start=2):
        try:  # most lines by far, in one step
            if line.startswith(b'{"add"'):
                yield "add", _ADD_LINE.decode(line).add
                continue
            if line.startswith(b'{"remove"'):
                yield "remove", _REMOVE_LINE.decode(line).remove
                continue
        except NOT_JSON:
            pass
        yield read_action(line, number)


def read_action(line: bytes, number: int) -> tuple[str, Any]:
    """Returns name and content of the action in ``line``; see ``actions_of``."""
    try:
        members = _OBJECT.decode(line)
        parsed = msgspec.json.decode(line)
    except NOT_JSON as error:
        raise InvalidCommit(f"line {number} is not a JSON object: {error}", field="content") from None
    if len(members) != 1:
        raise InvalidCommit(f"line {number} must be a JSON object with exactly one action", field="content")
    ((name, body),) = members.items()
    if (name == "commitInfo") != (number == 1):
        problem = f"line {number}: commitInfo must be the first action and only that"
        remedy = "in-commit timestamps require commitInfo on line 1"
        raise InvalidCommit(problem, field="commitInfo", remedy=remedy)
    if name in _REFUSED:
        raise InvalidCommit(f"line {number}: a commit cannot hold a {name} action", field=name)
    if not isinstance(parsed[name], dict):
        raise InvalidCommit(f"line {number}: {name} must be an object", field=name)
    if depth_of(parsed) > MAX_DEPTH:
        raise InvalidCommit(f"line {number} is nested more than {MAX_DEPTH} levels deep", field=name)
    decoder = _DECODERS.get(name)
    if decoder is None:
        return name, None
    try:
        return name, decoder.decode(body)
    except NOT_JSON as error:
        raise _invalid(name, number, error) from None


def fields_of(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the columns of a ``metaData`` action, without a check: it was stored, so it was
    checked before. Without a schema it has none."""
    return list(msgspec.json.decode(metadata.get("schemaString") or "{}").get("fields") or [])


def depth_of(value: Any) -> int:
    """Levels of lists and objects in ``value``; without recursion, which fails on deep nesting."""
    depth = 0
    level = [value] if isinstance(value, dict | list) else []
    while level:
        depth += 1
        below: list[Any] = []
        for node in level:  # loops, as every commit waits for them
            for child in node.values() if isinstance(node, dict) else node:
                if isinstance(child, dict | list):
                    below.append(child)
        level = below
    return depth


_WHERE: Final = re.compile(r"(.*?)(?: - at `\$\.?([^`]*)`)?", re.DOTALL)


def _invalid(name: str, number: int, error: Exception) -> InvalidCommit:
    """The error of msgspec, with the member that it is about: ``add.deletionVector.offset``."""
    match = _WHERE.fullmatch(str(error))
    what, path = (match[1], match[2] or "") if match else (str(error), "")
    missing = re.search(r"missing required field `(\w+)`", what)
    members = [part for part in (name, path.partition("[")[0], missing[1] if missing else "") if part]
    field = ".".join(members)
    return InvalidCommit(f"line {number}: {field}: {what}", field=field)


class _Stats(msgspec.Struct, gc=False):
    numRecords: Count | None = None


_STATS: Final = msgspec.json.Decoder(_Stats)


def records_of(add: Add) -> int | None:
    """The number of records in the statistics of ``add``; None without. Raises InvalidCommit for
    statistics that are no JSON object."""
    stats = add.stats
    if not stats:
        return None
    try:
        if ("[" in stats or stats.count("{") > MAX_DEPTH) and depth_of(msgspec.json.decode(stats)) > MAX_DEPTH:
            raise InvalidCommit(
                f"the stats of {add.path} are nested more than {MAX_DEPTH} levels deep", field="add.stats"
            )
        return _STATS.decode(stats).numRecords
    except NOT_JSON as error:
        problem = f"the stats of {add.path} are no statistics in JSON: {error}"
        raise InvalidCommit(problem, field="add.stats", remedy="leave them out, or write an object as text") from None

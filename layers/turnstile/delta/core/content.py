"""Reading a commit's content: what the coordinator must know of it before it may become a version.

A ratified commit that breaks the protocol would brick the table, so everything is checked here, before the write.
Source: Delta protocol, "Delta Log Entries", "Commit Provenance Information", "Catalog-managed tables", "Schema
Serialization Format".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.store.core.errors import InvalidCommit
from turnstile.store.core.names import MAX_ROW_ID, MAX_VERSION

CATALOG_MANAGED: Final = "catalogManaged"
ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"

_KNOWN: Final = {"commitInfo", "protocol", "metaData", "domainMetadata", "txn", "add", "remove", "cdc", "sidecar",
                 "checkpointMetadata"}  # fmt: skip
_REFUSED: Final = {"sidecar", "checkpointMetadata"}
_NEEDED: Final = (
    ("readerFeatures", CATALOG_MANAGED),
    ("writerFeatures", CATALOG_MANAGED),
    ("writerFeatures", "inCommitTimestamp"),
)

_MAX_DEPTH: Final = 100
"""How deeply a line may be nested. JSON readers give up at depths that depend on their stack: what is ratified here must
be readable wherever it is published or loaded, or it would brick the table (I11)."""

_NOT_JSON: Final = (msgspec.DecodeError, UnicodeError, RecursionError, TypeError)


class Content(msgspec.Struct, frozen=True):
    """The content of a commit.

    ``ict`` in-commit timestamp (ms); ``read_version`` the version that the writer read (None: not given); ``domains``
    domain-metadata actions in order; ``apps`` streaming application ids; ``blind`` whether it is a blind append in
    the sense of design 2.2; ``rows`` the number of records in its adds (None: not all have statistics); ``hwm`` row-id
    high-water mark it sets; ``whole`` False when only a prefix was read.
    """

    txn: str
    ict: int
    operation: str
    read_version: int | None
    protocol: dict[str, Any] | None
    metadata: dict[str, Any] | None
    domains: tuple[dict[str, Any], ...]
    apps: tuple[str, ...]
    blind: bool
    adds: int
    rows: int | None
    hwm: int | None
    whole: bool

    @property
    def changes_metadata(self) -> bool:
        """Whether catalog-visible metadata changes: protocol, metadata, or a domain other than row tracking."""
        others = (domain for domain in self.domains if domain["domain"] != ROW_TRACKING_DOMAIN)
        return self.protocol is not None or self.metadata is not None or any(others)

    @property
    def changed(self) -> str:
        """In short, for the tail: ``unread``, ``metadata``, ``append`` or ``data``."""
        if not self.whole:
            return "unread"
        if self.changes_metadata:
            return "metadata"
        return "append" if self.blind else "data"


def _action(raw: bytes, line: int) -> tuple[str, dict[str, Any]]:
    try:
        parsed = msgspec.json.decode(raw)
    except _NOT_JSON as error:
        raise InvalidCommit(f"line {line} is not JSON: {error}", field="content") from None
    if not isinstance(parsed, dict) or len(parsed) != 1:
        raise InvalidCommit(f"line {line} must be a JSON object with exactly one action", field="content")
    ((name, body),) = parsed.items()
    if name in _REFUSED:
        raise InvalidCommit(f"line {line}: a commit cannot hold a {name} action", field=name)
    if not isinstance(body, dict):
        raise InvalidCommit(f"line {line}: {name} must be an object", field=name)
    if raw.count(b"[") + raw.count(b"{") > _MAX_DEPTH and _depth(parsed) > _MAX_DEPTH:
        raise InvalidCommit(f"line {line} is nested more than {_MAX_DEPTH} levels deep", field=name)
    return name, body


def _depth(value: Any) -> int:
    """Levels of lists and objects in ``value``; without recursion, which fails on what is nested deeply."""
    depth, level = 0, [value]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    return depth


def _check_commit_info(info: dict[str, Any]) -> None:
    txn = info.get("txnId")
    if not isinstance(txn, str) or not txn or len(txn) > 128:
        problem = "line 1: commitInfo.txnId must be a text of 1 to 128 characters"
        remedy = "give every transaction a unique id; catalogManaged requires it"
        raise InvalidCommit(problem, field="commitInfo.txnId", remedy=remedy)
    ict = info.get("inCommitTimestamp")
    if type(ict) is not int or not 0 < ict <= MAX_VERSION:
        problem = f"line 1: commitInfo.inCommitTimestamp must be a positive integer, not {ict!r}"
        remedy = "write the in-commit timestamp in milliseconds; in-commit timestamps are compulsory here"
        raise InvalidCommit(problem, field="commitInfo.inCommitTimestamp", remedy=remedy)


def _features(protocol: dict[str, Any], member: str) -> list[str]:
    features = protocol.get(member)
    return features if isinstance(features, list) and all(isinstance(f, str) for f in features) else []


def check_protocol(protocol: dict[str, Any]) -> None:
    """The catalog-managed contract on a protocol action; raises InvalidCommit naming the member."""
    for member, least in (("minReaderVersion", 3), ("minWriterVersion", 7)):
        if protocol.get(member) != least:
            problem = f"protocol.{member} must be {least}, not {protocol.get(member)!r}"
            remedy = "catalog-managed tables use table features (reader 3, writer 7)"
            raise InvalidCommit(problem, field=f"protocol.{member}", remedy=remedy)
    for member, feature in _NEEDED:
        if feature not in _features(protocol, member):
            remedy = f"keep {feature}; to take the table out of the catalog use export"
            raise InvalidCommit(
                f"protocol.{member} must contain {feature!r}", field=f"protocol.{member}", remedy=remedy
            )


def check_metadata(metadata: dict[str, Any]) -> None:
    """The catalog-managed contract on a metaData action; raises InvalidCommit naming the member."""
    configuration = metadata.get("configuration")
    if not isinstance(configuration, dict) or configuration.get("delta.enableInCommitTimestamps") != "true":
        problem = "metaData.configuration must keep delta.enableInCommitTimestamps = 'true'"
        remedy = "do not switch in-commit timestamps off; catalogManaged requires them"
        raise InvalidCommit(problem, field="metaData.configuration", remedy=remedy)
    if not all(isinstance(value, str) for value in configuration.values()):
        raise InvalidCommit("metaData.configuration must map texts to texts", field="metaData.configuration")
    columns = metadata.get("partitionColumns")
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise InvalidCommit("metaData.partitionColumns must be a list of names", field="metaData.partitionColumns")
    for member, kinds in (("id", str), ("name", str | None), ("description", str | None)):
        if not isinstance(metadata.get(member), kinds):
            raise InvalidCommit(f"metaData.{member} must be a text", field=f"metaData.{member}")
    schema = metadata.get("schemaString")
    try:
        fields = msgspec.json.decode(schema) if isinstance(schema, str) else None
    except _NOT_JSON:
        fields = None
    if not is_struct(fields):
        raise InvalidCommit("metaData.schemaString must be a Delta schema in JSON", field="metaData.schemaString")


def _records(add: dict[str, Any]) -> int | None:
    stats = add.get("stats")
    try:
        parsed = msgspec.json.decode(stats) if isinstance(stats, str) else None
    except _NOT_JSON:
        parsed = None
    if not isinstance(stats, str) or not isinstance(parsed, dict):
        return None
    if stats.count("[") + stats.count("{") > _MAX_DEPTH and _depth(parsed) > _MAX_DEPTH:
        return None
    records = parsed.get("numRecords")
    return records if type(records) is int and 0 <= records <= MAX_ROW_ID else None


def _hwm(domain: dict[str, Any]) -> int | None:
    if domain.get("removed"):
        return None
    try:
        parsed = msgspec.json.decode(domain.get("configuration") or "{}")
    except _NOT_JSON:
        parsed = None
    mark = parsed.get("rowIdHighWaterMark") if isinstance(parsed, dict) else None
    if type(mark) is not int or not -1 <= mark <= MAX_ROW_ID:
        problem = f"{ROW_TRACKING_DOMAIN}: rowIdHighWaterMark must be an integer from -1, not {mark!r}"
        remedy = "write the highest row id assigned so far"
        raise InvalidCommit(problem, field="domainMetadata.configuration", remedy=remedy)
    return mark


def read_content(raw: bytes, *, whole: bool = True, first_version: bool = False) -> Content:
    """Reads and validates a commit's newline-delimited JSON; raises InvalidCommit, naming the line and member.

    Args:
        raw: the bytes; with ``whole=False`` a prefix that may end in the middle of a line.
        first_version: version 0 creates the table: protocol and metadata are compulsory.
    """
    lines = raw.split(b"\n")
    if not whole:
        lines = lines[:-1]
    elif lines and lines[-1] == b"":
        lines.pop()
    if not lines:
        raise InvalidCommit("the commit is empty", field="content")
    info: dict[str, Any] = {}
    protocol = metadata = None
    domains: list[dict[str, Any]] = []
    apps: list[str] = []
    blind, adds = whole, 0
    rows: int | None = 0
    for number, line in enumerate(lines, start=1):
        name, body = _action(line, number)
        if (name == "commitInfo") != (number == 1):
            problem = f"line {number}: commitInfo must be the first action and only that"
            remedy = "in-commit timestamps require commitInfo on line 1"
            raise InvalidCommit(problem, field="commitInfo", remedy=remedy)
        match name:
            case "commitInfo":
                _check_commit_info(body)
                info = body
            case "protocol":
                if protocol is not None:
                    raise InvalidCommit(f"line {number}: a second protocol action", field="protocol")
                check_protocol(body)
                protocol = body
            case "metaData":
                if metadata is not None:
                    raise InvalidCommit(f"line {number}: a second metaData action", field="metaData")
                check_metadata(body)
                metadata = body
            case "domainMetadata":
                if not isinstance(body.get("domain"), str):
                    raise InvalidCommit(f"line {number}: domainMetadata.domain is missing", field="domainMetadata")
                domains.append(body)
                blind = blind and body["domain"] == ROW_TRACKING_DOMAIN
            case "txn":
                if not isinstance(body.get("appId"), str):
                    raise InvalidCommit(f"line {number}: txn.appId is missing", field="txn.appId")
                apps.append(body["appId"])
            case "add":
                adds += 1
                records = _records(body)
                rows = None if rows is None or records is None else rows + records
                blind = blind and body.get("dataChange") is True and not body.get("deletionVector")
            case _:
                blind = False
        if name not in _KNOWN:
            blind = False
    if first_version and (protocol is None or metadata is None):
        absent = "protocol" if protocol is None else "metaData"
        raise InvalidCommit("version 0 must hold a protocol and a metaData action", field=absent)
    blind = blind and protocol is None and metadata is None
    marks = [_hwm(domain) for domain in domains if domain["domain"] == ROW_TRACKING_DOMAIN]
    read_version, operation = info.get("readVersion"), info.get("operation")
    return Content(
        txn=info["txnId"],
        ict=info["inCommitTimestamp"],
        operation=operation[:64] if isinstance(operation, str) else "",
        read_version=read_version if type(read_version) is int and 0 <= read_version <= MAX_VERSION else None,
        protocol=protocol,
        metadata=metadata,
        domains=tuple(domains),
        apps=tuple(apps),
        blind=blind,
        adds=adds,
        rows=rows if rows is not None and rows <= MAX_ROW_ID else None,
        hwm=marks[-1] if marks else None,
        whole=whole,
    )


# -- schemas ----------------------------------------------------------------------------------------------------------


def is_struct(node: Any, depth: int = 0) -> bool:
    """Whether ``node`` is a struct type whose fields have a name and a type, all the way down."""
    if not isinstance(node, dict) or node.get("type") != "struct" or depth > _MAX_DEPTH:
        return False
    fields = node.get("fields")
    return isinstance(fields, list) and all(is_field(field, depth + 1) for field in fields)


def is_field(field: Any, depth: int = 0) -> bool:
    """Whether ``field`` is a field with a name and a type."""
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and _is_flag(field, "nullable")
        and isinstance(field.get("metadata"), dict | None)
        and is_type(field.get("type"), depth)
    )


def is_type(type: Any, depth: int = 0) -> bool:
    """Whether ``type`` is a name, an array, a map, a struct, or Spark's user-defined type with what files hold of it."""
    if isinstance(type, str):
        return bool(type)
    if not isinstance(type, dict) or depth > _MAX_DEPTH:
        return False
    match type.get("type"):
        case "struct":
            return is_struct(type, depth)
        case "array":
            return _is_flag(type, "containsNull") and is_type(type.get("elementType"), depth + 1)
        case "map":
            parts = (type.get("keyType"), type.get("valueType"))
            return _is_flag(type, "valueContainsNull") and all(is_type(part, depth + 1) for part in parts)
        case "udt":  # Spark's own: files hold its sqlType
            return is_type(type.get("sqlType"), depth + 1)
    return False


def _is_flag(node: dict[str, Any], member: str) -> bool:
    return isinstance(node.get(member, True), bool)

"""A commit's content: the facts that the coordinator needs before the commit may become a version.

A ratified commit that breaks the protocol would brick the table, so every action is validated here,
before the write: by itself (``actions``), as the definition of a table (``definition``), with the
others of the commit, and by the rules of the table, such as its partition columns and features.
Source: Delta protocol, "Delta Log Entries", "Actions", "Add File and Remove File", "Writer
Requirements for Column Mapping", "Row Tracking", "Domain Metadata", "Commit Provenance
Information", "Catalog-managed tables".
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import (
    NO_URI,
    NOT_JSON,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Remove,
    Txn,
    actions_of,
    lines_of,
    records_of,
)
from turnstile.delta.core.definition import (
    CATALOG_MANAGED,
    ROW_TRACKING_DOMAIN,
    Definition,
    check_definition,
    check_metadata,
    check_protocol,
    maps_columns,
    supported_features,
)
from turnstile.delta.core.partition_values import is_value
from turnstile.delta.core.schemas import PHYSICAL_NAME, Field, columns_of
from turnstile.store.core.errors import InvalidCommit
from turnstile.store.core.names import MAX_ROW_ID, MAX_VERSION

__all__ = ["CATALOG_MANAGED", "EXPECTATION", "ON_COMMIT", "ROW_TRACKING_DOMAIN", "Content", "read_content"]

# -- what only the table can tell --------------------------------------------------------------------------------------

PRODUCER_APP: Final = "turnstile.rows/"
"""The beginning of the application ids of producers of rows (``ingest.turns``): the rows of their
requests keep them apart (I26), so the HEAD does not count them as streaming applications."""

EXPECTATION: Final = "turnstile.expect."
"""The beginning of the properties with expectations (``expectations.core.conditions``)."""
EXPECTATION_STEM: Final = "turnstile.expect"
"""The beginning of names that are expectations, or meant to be, in small letters."""
ON_COMMIT: Final = ".on"
"""The end of the property that says whether commits are checked."""

_SUSPENDED: Final = "delta.rowTrackingSuspended"

_FIELDS: Final = {
    "deletionVectors": "add.deletionVector",
    "rowTracking": "add.baseRowId",
    "changeDataFeed": "cdc",
    "domainMetadata": "domainMetadata",
    "clustering": "domainMetadata",
}


class TableRules(msgspec.Struct, frozen=True):
    """The rules of a table: ``partitions`` its partition columns, by their names in actions, with
    their types; ``features`` the features of its writers; ``tracked`` whether writers assign row
    ids; ``expects`` whether it has expectations of the rows of each commit."""

    partitions: dict[str, Any]
    features: frozenset[str]
    tracked: bool
    expects: bool = False


class Uses(msgspec.Struct, frozen=True):
    """The needs of a commit: ``partitions`` the sets of partition columns that its new files have
    values of; ``features`` the features that its actions need; ``untracked`` the path of an add
    without row ids, if there is one; ``values`` the partition values, each once, with their
    columns; ``files`` the files with new rows, and ``whole`` whether these are all.
    """

    partitions: frozenset[frozenset[str]] = frozenset()
    features: frozenset[str] = frozenset()
    untracked: str | None = None
    values: frozenset[tuple[str, str]] = frozenset()
    files: tuple[Add, ...] = ()
    whole: bool = True


def rules_of(protocol: Definition, metadata: Definition) -> TableRules:
    """The rules of a table with these actions, which have been checked."""
    configuration = metadata.get("configuration") or {}
    names = metadata.get("partitionColumns") or []
    fields = {field["name"]: field for field in columns_of(metadata["schemaString"])} if names else {}
    columns = [fields.get(name, {"name": name, "type": None}) for name in names]
    partitions = {_name_in_actions(column, configuration): column["type"] for column in columns}
    features = frozenset(supported_features(protocol, "writerFeatures"))
    suspended = configuration.get(_SUSPENDED, "").lower() == "true"
    expects = any(name.startswith(EXPECTATION) and name.endswith(ON_COMMIT) for name in configuration)
    return TableRules(partitions, features, "rowTracking" in features and not suspended, expects)


def expectation_properties(metadata: Definition) -> dict[str, str]:
    """The properties of a table that are expectations, or meant to be."""
    return expectations_among(metadata.get("configuration") or {})


def expectations_among(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table or a namespace that are expectations, or meant to be."""
    return {key: value for key, value in properties.items() if key.lower().startswith(EXPECTATION_STEM)}


def _name_in_actions(field: Field, configuration: dict[str, str]) -> str:
    return str(
        (field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"])
        if maps_columns(configuration)
        else field["name"]
    )


def check_uses(uses: Uses, rules: TableRules, *, ticket: bool = False) -> None:
    """Checks a commit against the rules of its table; the row ids of a ``ticket`` are assigned
    here. Raises InvalidCommit."""
    for names in uses.partitions:
        if names != rules.partitions.keys():
            problem = f"partitionValues must have {_as_list(rules.partitions)}, not {_as_list(names)}"
            remedy = "give a value, or null, for each of the table's partition columns, by its physical name"
            raise InvalidCommit(problem, field="add.partitionValues", remedy=remedy)
    for name, text in uses.values:
        if not is_value(rules.partitions[name], text):
            problem = f"the partition value {text[:200]!r} of {name[:200]!r} is no {rules.partitions[name]}"
            remedy = "write it as the protocol says (Partition Value Serialization), or null"
            raise InvalidCommit(problem, field="add.partitionValues", remedy=remedy)
    for feature in sorted(uses.features - rules.features):
        problem = f"the commit needs the table feature {feature!r}"
        remedy = "add it to the protocol in the same commit"
        raise InvalidCommit(problem, field=_FIELDS.get(feature, "protocol.writerFeatures"), remedy=remedy)
    if rules.tracked and uses.untracked is not None and not ticket:
        problem = (
            f"row tracking is on, and the add of {uses.untracked[:200]!r} has no baseRowId and defaultRowCommitVersion"
        )
        raise InvalidCommit(problem, field="add.baseRowId", remedy="assign row ids above the high-water mark")


def _as_list(names: Collection[str]) -> str:
    return f"exactly {', '.join(map(repr, sorted(names)))[:500]}" if names else "no members"


# -- the content -------------------------------------------------------------------------------------------------------


class Content(msgspec.Struct, frozen=True):
    """The content of a commit.

    ``ict`` in-commit timestamp (ms); ``read_version`` the version that the writer read (None: not
    given); ``domains`` domain-metadata actions in order; ``apps`` streaming application ids;
    ``blind`` whether it is a blind append in the sense of design 2.2; ``rows`` the number of
    records in its adds (None: not all have statistics); ``hwm`` row-id high-water mark it sets;
    ``whole`` False when only a prefix was read; ``uses`` the needs on its table.
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
    uses: Uses = Uses()

    @property
    def changes_metadata(self) -> bool:
        """Whether catalog-visible metadata changes: protocol, metadata, or a domain other than row
        tracking."""
        if self.protocol is not None or self.metadata is not None:
            return True
        return bool(self.domains) and any(domain["domain"] != ROW_TRACKING_DOMAIN for domain in self.domains)

    @property
    def change_kind(self) -> str:
        """In short, for the tail: ``unread``, ``metadata``, ``append`` or ``data``."""
        if not self.whole:
            return "unread"
        if self.changes_metadata:
            return "metadata"
        return "append" if self.blind else "data"


def read_content(raw: bytes, *, whole: bool = True, first_version: bool = False) -> Content:
    """Reads and validates a commit's newline-delimited JSON; raises InvalidCommit, naming the line
    and member.

    Args:
        raw: the bytes; with ``whole=False`` a prefix that may end in the middle of a line.
        first_version: version 0 creates the table: protocol and metadata are compulsory.
    """
    lines = lines_of(raw, whole=whole)
    info: CommitInfo | None = None
    protocol = metadata = None
    adds: list[Add] = []
    removes: list[Remove] = []
    cdcs: list[Cdc] = []
    txns: list[Txn] = []
    domains: list[DomainMetadata] = []
    groups: list[str] = []
    may_be_blind = whole  # as far as its kinds of action say
    for number, (name, action) in enumerate(actions_of(lines), start=1):
        match name:
            case "add":
                adds.append(action)
            case "commitInfo":
                info = action
            case "remove":
                removes.append(action)
            case "cdc":
                cdcs.append(action)
            case "txn":
                txns.append(action)
            case "domainMetadata":
                domains.append(action)
            case "protocol" | "metaData":
                if (protocol if name == "protocol" else metadata) is not None:
                    raise InvalidCommit(f"line {number}: a second {name} action", field=name)
                body = msgspec.json.decode(lines[number - 1])[name]
                if name == "protocol":
                    check_protocol(protocol := body)
                else:
                    check_metadata(metadata := body)
            case "transactionGroup":
                groups.append("")
                may_be_blind = False  # it names versions, as no blind append does
            case _:
                may_be_blind = False
    assert info is not None, "the first action is no other"
    if first_version and (protocol is None or metadata is None):
        absent = "protocol" if protocol is None else "metaData"
        raise InvalidCommit("version 0 must hold a protocol and a metaData action", field=absent)
    appends = may_be_blind
    rows = 0
    untracked = None
    features = _features(removes, cdcs, domains) if removes or cdcs or domains else set[str]()
    counted = True
    partitioned = bool(cdcs)
    rewritten = {remove.path for remove in removes} if removes else ()
    new_files: list[Add] = []
    for add in adds:  # no calls but one: this is what a commit of many files waits for
        records = records_of(add)
        if records is None:
            counted = False
        else:
            rows += records
        if add.dataChange and add.path not in rewritten:
            new_files.append(add)
        if add.deletionVector is not None:
            appends = False
            features.add("deletionVectors")
            if records is None:
                problem = "an add with a deletion vector needs stats.numRecords"
                remedy = "write how many rows the file has"
                raise InvalidCommit(problem, field="add.stats", remedy=remedy)
        elif not add.dataChange:
            appends = False
        if add.partitionValues:
            partitioned = True
        if add.baseRowId is not None:
            features.add("rowTracking")
        if untracked is None and (add.baseRowId is None or add.defaultRowCommitVersion is None):
            untracked = add.path
    files = tuple(new_files)
    if partitioned:
        uses = Uses(_partitions(adds, cdcs), frozenset(features), untracked, _values(adds, cdcs), files, whole)
    else:
        names = _UNPARTITIONED if adds else frozenset[frozenset[str]]()
        uses = Uses(names, frozenset(features), untracked, files=files, whole=whole)
    if protocol is not None and metadata is not None:
        check_definition(protocol, metadata)
        check_uses(uses, rules_of(protocol, metadata))
    _check_files(adds, removes, cdcs)
    if groups or txns or domains:
        _check_once("transactionGroup", groups)
        _check_once("txn.appId", [txn.appId for txn in txns])
        _check_once("domainMetadata.domain", [domain.domain for domain in domains])
    marks = [_hwm(domain) for domain in domains if domain.domain == ROW_TRACKING_DOMAIN]
    version = info.readVersion
    return Content(
        txn=info.txnId,
        ict=info.inCommitTimestamp,
        operation=info.operation[:64] if isinstance(info.operation, str) else "",
        read_version=version if version is not None and 0 <= version <= MAX_VERSION else None,
        protocol=protocol,
        metadata=metadata,
        domains=tuple(msgspec.structs.asdict(domain) for domain in domains),
        apps=tuple(txn.appId for txn in txns if not txn.appId.startswith(PRODUCER_APP)),
        blind=appends
        and not (protocol or metadata or removes or cdcs)
        and all(domain.domain == ROW_TRACKING_DOMAIN for domain in domains),
        adds=len(adds),
        rows=rows if counted and rows <= MAX_ROW_ID else None,
        hwm=marks[-1] if marks else None,
        whole=whole,
        uses=uses,
    )


_UNPARTITIONED: Final = frozenset({frozenset[str]()})
_PLAIN: Final = (string.ascii_letters + string.digits + "-._~/=").encode()
_OPAQUE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!/)")
"""Texts that Java's URI takes as a scheme and no path."""


def _check_files(adds: list[Add], removes: list[Remove], cdcs: list[Cdc]) -> None:
    """Checks the common members of files: paths that are URIs and there once, and deletion
    vectors."""
    added = [add.path for add in adds]
    removed = [remove.path for remove in removes]
    for name, paths in (("add", added), ("remove", removed), ("cdc", [cdc.path for cdc in cdcs])):
        if "//" in paths or "".join(paths).encode().translate(None, _PLAIN):
            _check_paths(name, paths)
        _check_once(f"{name}.path", paths)
    vectors = {remove.path: remove.deletionVector for remove in removes}
    for add in adds if vectors else ():
        if add.path in vectors and vectors[add.path] == add.deletionVector:
            problem = f"{add.path[:200]!r} is added and removed, with the same deletion vector"
            raise InvalidCommit(problem, field="add.path", remedy="keep one of the two actions")
    for remove in removes:
        if remove.extendedFileMetadata and (remove.partitionValues is None or remove.size is None):
            problem = "remove.extendedFileMetadata says that partitionValues and size are there"
            raise InvalidCommit(problem, field="remove", remedy="write both, or leave extendedFileMetadata out")


def _check_paths(name: str, paths: list[str]) -> None:
    for path in paths:
        if NO_URI.search(path) or _OPAQUE.match(path):
            problem = f"{name}.path {path[:200]!r} is not a URI"
            remedy = "percent-encode characters that a URI cannot hold"
            raise InvalidCommit(problem, field=f"{name}.path", remedy=remedy)


def _check_once(field: str, values: list[str]) -> None:
    if len({*values}) != len(values):
        twice = next(value for index, value in enumerate(values) if value in values[:index])
        problem = f"{field} {twice[:200]!r} is there twice"
        remedy = "write one action for it: Delta ignores the order of actions"
        raise InvalidCommit(problem, field=field, remedy=remedy)


def _partitions(adds: list[Add], cdcs: list[Cdc]) -> frozenset[frozenset[str]]:
    """The sets of partition columns of new files. Removed files may be of a time when the table had
    others."""
    names = {tuple(file.partitionValues) for file in adds}
    names |= {tuple(file.partitionValues) for file in cdcs}
    return frozenset(frozenset(columns) for columns in names)


def _values(adds: list[Add], cdcs: list[Cdc]) -> frozenset[tuple[str, str]]:
    """The partition values of new files, each once with its column; null and the empty text, which
    means null, are left out."""
    values = {value for file in adds if file.partitionValues for value in file.partitionValues.items()}
    values |= {value for file in cdcs for value in file.partitionValues.items()}
    return frozenset((name, text) for name, text in values if text)


def _features(removes: list[Remove], cdcs: list[Cdc], domains: list[DomainMetadata]) -> set[str]:
    """The table features that actions other than adds need, independent of the metadata."""
    features = set()
    if any(remove.deletionVector for remove in removes):
        features.add("deletionVectors")
    if cdcs:
        features.add("changeDataFeed")
    if domains:
        features.add("domainMetadata")
    features |= {
        _DOMAIN_FEATURES[domain.domain]
        for domain in domains
        if domain.domain in _DOMAIN_FEATURES and not domain.removed
    }
    return features


_DOMAIN_FEATURES: Final = {ROW_TRACKING_DOMAIN: "rowTracking", "delta.clustering": "clustering"}


class _RowTracking(msgspec.Struct):
    rowIdHighWaterMark: int


def _hwm(domain: DomainMetadata) -> int | None:
    if domain.removed:
        return None
    try:
        mark = msgspec.json.decode(domain.configuration, type=_RowTracking).rowIdHighWaterMark
    except NOT_JSON:
        mark = None
    if mark is None or not -1 <= mark <= MAX_ROW_ID:
        problem = f"{ROW_TRACKING_DOMAIN}: rowIdHighWaterMark must be an integer from -1"
        remedy = "write the highest row id assigned so far"
        raise InvalidCommit(problem, field="domainMetadata.configuration", remedy=remedy)
    return mark

"""A table update of the Delta API: requirements and actions of the request in one value, checked
before any read, and then against the table's log."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from turnstile.api.unity import requests
from turnstile.api.unity.columns import check_numbers, check_partitions, same_columns, to_delta
from turnstile.api.unity.requests import Iceberg
from turnstile.api.unity.responses import clustering_properties, is_derived
from turnstile.catalog.core.policies import check_policies
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.core.actions import fields_of
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.delta.core.metadata import Beside, DeltaMetadata, apply, etag_of
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION, check_uuid

CLUSTERING: Final = "delta.clustering"
DOMAINS: Final = {CLUSTERING: "clustering", ROW_TRACKING_DOMAIN: "rowTracking"}
"""Domains that the API names, each with the writer feature it needs; others are accepted as
well."""

_NAME_BYTES: Final = 255

T = TypeVar("T")


class TableUpdate(msgspec.Struct, frozen=True):
    """The changes of an update; None (UNSET for the comment) for a member without a change.

    ``published``: the version up to which the client claims to have backfilled; ``replace``:
    whether ``set`` replaces all properties; ``columns``: in Delta's JSON; ``snapshot``: version and
    time (ms) of an external table's metadata; ``table_location``: filled in when the table is read.
    """

    uuid: str
    etag: str | None = None
    commit: requests.Commit | None = None
    uniform: requests.Iceberg | None = None
    published: int | None = None
    set: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    replace: bool = False
    columns: list[dict[str, Any]] | None = None
    partitions: list[str] | None = None
    comment: str | msgspec.UnsetType | None = msgspec.UNSET
    protocol: dict[str, Any] | None = None
    set_domains: dict[str, dict[str, Any]] = {}
    remove_domains: tuple[str, ...] = ()
    snapshot: tuple[int, int] | None = None
    table_location: str = ""

    def marks_rows(self, *, before: bool) -> bool:
        """Whether row tracking's domain is set after the update, if it was so ``before``."""
        return ROW_TRACKING_DOMAIN in self.set_domains or (before and ROW_TRACKING_DOMAIN not in self.remove_domains)

    @property
    def visible(self) -> bool:
        """Whether it changes metadata other than row tracking's."""
        domains = ({*self.set_domains} | {*self.remove_domains}) - {ROW_TRACKING_DOMAIN}
        return bool(
            self.set
            or self.remove
            or self.replace
            or self.columns is not None
            or self.partitions is not None
            or self.comment is not msgspec.UNSET
            or self.protocol is not None
            or domains
            or self.snapshot is not None
        )


def table_update(request: requests.Update) -> TableUpdate:
    """Returns the update of a request; raises InvalidRequest for no action, no uuid, two of a kind,
    something both set and removed, or a value out of range."""
    if not request.updates:
        raise InvalidRequest("updates must hold at least one action", field="updates")
    required = _by_kind(request.requirements, "requirements")
    actions = _by_kind(request.updates, "updates")
    uuid = required.get(requests.AssertUuid)
    if uuid is None:
        raise InvalidRequest("the requirement assert-table-uuid is missing", field="requirements")

    def member(kind: type[T], read: Callable[[T], Any], default: Any) -> Any:
        action = actions.get(kind)
        return default if action is None else read(action)

    etag = required.get(requests.AssertEtag)
    add = actions.get(requests.AddCommit)
    columns = member(requests.SetColumns, lambda action: to_delta(action.columns), None)
    partitions = member(requests.SetPartitions, lambda action: action.partition_columns, None)
    if columns is not None and partitions is not None:
        check_partitions(partitions, columns)
    update = TableUpdate(
        uuid=check_uuid(uuid.uuid, "assert-table-uuid"),
        etag=etag.etag if etag else None,
        commit=checked_commit(add.commit) if add else None,
        uniform=add.uniform.iceberg if add and add.uniform else None,
        published=member(requests.SetPublished, lambda action: action.latest_published_version, None),
        set=member(requests.SetProperties, lambda action: action.updates, {}),
        remove=tuple(member(requests.RemoveProperties, lambda action: action.removals, ())),
        columns=columns,
        partitions=partitions,
        comment=member(requests.SetComment, lambda action: action.comment, msgspec.UNSET),
        protocol=member(requests.SetProtocol, lambda action: action.protocol.to_delta(), None),
        set_domains=member(requests.SetDomains, lambda action: checked_domains(action.updates), {}),
        remove_domains=tuple(member(requests.RemoveDomains, lambda action: action.domains, ())),
        snapshot=member(requests.SetSnapshotVersion, msgspec.structs.astuple, None),
    )
    for what, both in (
        ("property", {*update.set} & {*update.remove}),
        ("domain", {*update.set_domains} & {*update.remove_domains}),
    ):
        if both:
            raise InvalidRequest(f"{what} {min(both)!r} is both set and removed", field="updates")
    for value in update.snapshot or ():
        _check_range(value, 0, "last-commit-version")
    check_published(update.published, update.commit)
    return update


def checked_domains(domains: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any]]:
    """Returns the domains without nulls; raises InvalidRequest if none is set, or one has a value
    that no client could read again."""
    checked = {name: value for name, value in domains.items() if value is not None}
    check_numbers(checked, "domain-metadata")
    if not checked:
        raise InvalidRequest("set-domain-metadata sets no domain", field="updates")
    clustering = checked.get(CLUSTERING, {}).get("clusteringColumns", [])
    if not isinstance(clustering, list) or not all(
        isinstance(path, list) and all(isinstance(part, str) for part in path) for path in clustering
    ):
        raise InvalidRequest(f"{CLUSTERING}.clusteringColumns must be a list of paths", field="updates")
    return checked


def without_feature(domains: Iterable[str], features: Container[str]) -> list[str]:
    return [domain for domain in domains if domain in DOMAINS and DOMAINS[domain] not in features]


def check_features(domains: Iterable[str], features: Container[str]) -> None:
    for domain in without_feature(domains, features):
        raise InvalidRequest(f"domain {domain} needs the feature {DOMAINS[domain]!r}", field="domain-metadata")


def checked_commit(commit: requests.Commit) -> requests.Commit:
    """Returns ``commit`` if its members are in range and its name is a plain file name of any
    form."""
    for member in ("version", "timestamp", "file_size", "file_modification_timestamp"):
        _check_range(getattr(commit, member), 1, f"commit.{member.replace('_', '-')}")
    name = commit.file_name
    plain = name and name not in (".", "..") and not any(char in "/\\" or ord(char) < 32 for char in name)
    if not plain or len(name.encode()) > _NAME_BYTES:
        raise InvalidRequest(
            "commit.file-name must be the base name of a file", field="commit.file-name", remedy="leave folders out"
        )
    return commit


def check_published(published: int | None, commit: requests.Commit | None) -> None:
    """Checks that a claimed backfill is a version; that of a first commit is ignored."""
    if published is not None and (commit is None or commit.version != 1):
        _check_range(published, 0, "latest-published-version")


def check_bound(update: TableUpdate, latest: int) -> None:
    """Checks that a claimed backfill is not above ``latest``, the table's version before the
    update.

    A late commit is not checked: a client that lost a race may know already that the winner is
    published, and has to get the conflict.
    """
    if update.published is None or (update.commit is not None and update.commit.version <= max(latest, 1)):
        return
    if update.published > latest or (update.commit is None and latest == 0):
        raise InvalidRequest(
            f"version {update.published} cannot be published: the latest commit is {latest}",
            field="latest-published-version",
        )


def _check_range(value: int, least: int, field: str) -> None:
    if not least <= value <= MAX_VERSION:
        raise InvalidRequest(f"{field} must be between {least} and {MAX_VERSION}, not {value}"[:300], field=field)


def _by_kind(members: Iterable[Any], field: str) -> dict[Any, Any]:
    kinds: dict[Any, Any] = {}
    for member in members:
        if type(member) in kinds:
            raise InvalidRequest(f"{member.__struct_config__.tag} is there twice", field=field)
        kinds[type(member)] = member
    return kinds


# -- agreement with the log -------------------------------------------------------------------------------------------
# Readers believe the log. So the log decides about everything it holds: protocol, columns,
# partition columns, and the properties and the comment in it. A request that contradicts it is
# refused: the catalog would show what is not so. What the log does not hold is kept beside it: the
# comment, and properties of the engine or the user. Properties of Delta (``delta.*``) act on
# readers and writers, so they must be in the log. UniForm's conversion state comes with every
# commit of a table that is also read as Iceberg, and with no other.

_FORMATS: Final = "delta.universalFormat.enabledFormats"
_LOCATION_CHARACTERS: Final = 65_535
_REMEDY: Final = "write the change into the commit's file and send the same change"


def metadata_after_commit(
    update: TableUpdate, id: str, before: DeltaMetadata, content: Content, version: int
) -> DeltaMetadata:
    """Returns the table metadata after the commit of ``update`` became ``version``; see
    ``CommitRequest.describe``. Raises InvalidRequest if the request and the commit contradict each
    other.
    """
    after = apply(before, content, version)
    if content.whole:
        check_agreement(update, after)
    beside = _beside_after(update, after)
    visible = visible_properties(after, beside)
    check_uniform(update.uniform, version, visible, update.table_location)
    if not needs_uniform(visible):
        beside = msgspec.structs.replace(beside, uniform=None)
    repeats = after is before or not content.changes_metadata
    if repeats and not (content.changes_metadata and update.visible) and _visible(beside) == _visible(before.beside):
        if update.uniform is None and beside == before.beside:
            return before
        kept = msgspec.structs.replace(_with_uniform(beside, update), etag=etag_of(id, before))
        return msgspec.structs.replace(before, beside=kept)
    beside = msgspec.structs.replace(_with_uniform(beside, update), etag="")
    return msgspec.structs.replace(after, version=version, timestamp=content.ict, beside=beside)


def metadata_after_update(update: TableUpdate, id: str, before: DeltaMetadata, now_ms: int) -> DeltaMetadata:
    """Returns the table metadata after an update without a commit: only members beside the log can
    change. Raises InvalidRequest if the request contradicts the log."""
    check_policies(update.set, before.beside.properties)
    check_agreement(update, before)
    beside = _beside_after(update, before)
    if _visible(beside) == _visible(before.beside):
        if beside.row_mark == before.beside.row_mark:
            return before
        return msgspec.structs.replace(before, beside=msgspec.structs.replace(beside, etag=etag_of(id, before)))
    return msgspec.structs.replace(before, beside=msgspec.structs.replace(beside, etag="", updated=now_ms))


def check_agreement(update: TableUpdate, after: DeltaMetadata) -> None:
    """Raises InvalidRequest where ``update`` contradicts the log as it is in ``after``."""
    fields = fields_of(after.metadata)
    partitions = list(after.metadata.get("partitionColumns") or [])
    if update.columns is not None and not same_columns(update.columns, fields):
        raise _contradiction("columns")
    if update.partitions is not None:
        check_partitions(update.partitions, fields)
        if update.partitions != partitions:
            raise _contradiction("partition-columns")
    if update.protocol is not None and _protocol(update.protocol) != _protocol(after.protocol):
        raise _contradiction("protocol")
    configuration = after.metadata.get("configuration") or {}
    if update.set.get(UUID_PROPERTY, update.uuid) != update.uuid:
        raise InvalidRequest(f"{UUID_PROPERTY} is the table's uuid, {update.uuid}", field="properties")
    for key, value in update.set.items():
        if not is_derived(key) and configuration.get(key, None if key.startswith("delta.") else value) != value:
            raise _contradiction(f"property {key!r}", "properties")
    for key in update.remove:
        if not is_derived(key) and key in configuration:
            raise _contradiction(f"property {key!r}", "properties")
    check_features(update.set_domains, after.protocol.get("writerFeatures") or [])
    _check_domains(update, after)
    description = after.metadata.get("description")
    if update.comment is not msgspec.UNSET and description and description != update.comment:
        raise _contradiction("comment")


def _check_domains(update: TableUpdate, after: DeltaMetadata) -> None:
    """Domains come from the log. Row tracking's is not compared: its high-water mark is in the
    HEAD."""
    for name, wanted in update.set_domains.items():
        text = after.domains.get(name)
        if name != ROW_TRACKING_DOMAIN and _configuration(name, wanted) != _configuration(name, text):
            raise _contradiction(f"domain {name!r}", "domain-metadata")
    for name in update.remove_domains:
        if name in after.domains:
            raise _contradiction(f"domain {name!r}", "domain-metadata")


def _configuration(name: str, value: Any) -> Any:
    """The configuration of a domain, from the API's object or the log's text; of clustering only
    the columns."""
    if name == CLUSTERING:
        return clustering_properties(value)
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return value


def _beside_after(update: TableUpdate, after: DeltaMetadata) -> Beside:
    before = after.beside.properties.items()
    removed = {*update.remove} - {UUID_PROPERTY}
    properties = {key: value for key, value in before if not update.replace or key == UUID_PROPERTY} | update.set
    kept = {key: value for key, value in properties.items() if key not in removed}
    comment = after.beside.comment if update.comment is msgspec.UNSET else update.comment
    beside = beside_log(after, kept, comment or None)
    return msgspec.structs.replace(beside, row_mark=update.marks_rows(before=beside.row_mark))


def beside_log(log: DeltaMetadata, properties: Mapping[str, str], comment: str | None) -> Beside:
    """Returns the properties that are stored beside the log: not in it and not derived from it; and
    the comment if the log has none."""
    configuration = log.metadata.get("configuration") or {}
    kept = {key: value for key, value in properties.items() if key not in configuration and not is_derived(key)}
    comment = None if log.metadata.get("description") else comment
    return msgspec.structs.replace(log.beside, properties=kept, comment=comment)


def visible_properties(metadata: DeltaMetadata, beside: Beside) -> dict[str, str]:
    """Properties in the log and beside it, without derived ones."""
    return {**beside.properties, **(metadata.metadata.get("configuration") or {})}


def _visible(beside: Beside) -> Any:
    return beside.properties, beside.comment


def _protocol(protocol: dict[str, Any]) -> Any:
    versions = protocol.get("minReaderVersion"), protocol.get("minWriterVersion")
    return *versions, *(sorted(protocol.get(features) or []) for features in ("readerFeatures", "writerFeatures"))


def _contradiction(what: str, field: str | None = None) -> InvalidRequest:
    return InvalidRequest(
        f"{what} in the request and in the table's log are not the same", field=field or what, remedy=_REMEDY
    )


def needs_uniform(properties: Mapping[str, str]) -> bool:
    """Whether commits must carry Iceberg's conversion state."""
    return "iceberg" in [format.strip() for format in properties.get(_FORMATS, "").split(",")]


def check_uniform(iceberg: Iceberg | None, version: int, properties: Mapping[str, str], location: str) -> None:
    """Raises InvalidRequest unless conversion state is there exactly when it must be by the table's
    ``properties`` after the commit, and is of this commit (a new table, version 0, may also give 1)
    and table.
    """
    if (iceberg is not None) != needs_uniform(properties):
        how = "is missing" if iceberg is None else "is given"
        raise InvalidRequest(f"uniform {how}, and {_FORMATS} says otherwise", field="uniform")
    if iceberg is None:
        return
    allowed = (0, 1) if version == 0 else (version,)
    has_base = iceberg.base_converted_delta_version is not None
    if iceberg.converted_delta_version not in allowed or (version == 0 and has_base):
        raise InvalidRequest("converted-delta-version must be the commit's version", field="uniform.iceberg")
    path = iceberg.metadata_location
    below = path.replace("file:///", "file:/").startswith(location.replace("file:///", "file:/").rstrip("/") + "/")
    if not below or len(path) > _LOCATION_CHARACTERS or "/../" in path + "/":
        raise InvalidRequest("metadata-location must be below the table's location", field="uniform.iceberg")


def _with_uniform(beside: Beside, update: TableUpdate) -> Beside:
    if update.uniform is None:
        return beside
    return msgspec.structs.replace(beside, uniform=msgspec.to_builtins(update.uniform))

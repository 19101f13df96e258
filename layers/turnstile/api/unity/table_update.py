"""A table update of the Delta API: requirements and actions of the request in one value, checked before any read."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Final, TypeVar

import msgspec

from turnstile.api.unity import requests
from turnstile.api.unity.columns import check_numbers, check_partitions, to_delta
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION, check_uuid

CLUSTERING: Final = "delta.clustering"
DOMAINS: Final = {CLUSTERING: "clustering", ROW_TRACKING_DOMAIN: "rowTracking"}
"""Domains that the API names, each with the writer feature it needs; others are accepted as well."""

_NAME_BYTES: Final = 255

T = TypeVar("T")


class TableUpdate(msgspec.Struct, frozen=True):
    """What an update changes; None (UNSET for the comment) where it says nothing.

    Attributes:
        published: the version up to which the client claims to have backfilled.
        replace: whether ``set`` replaces all properties.
        columns: in Delta's JSON.
        snapshot: version and time (ms) that an external table's metadata reflects.
        table_location: filled in when the table is read.
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
    """Returns the update of a request.

    Raises:
        InvalidRequest: no action, no uuid, two of a kind, something both set and removed, a value out of range.
    """
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
    domains = member(requests.SetDomains, lambda action: action.updates, None)
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
        set_domains=checked_domains(domains),
        remove_domains=tuple(member(requests.RemoveDomains, lambda action: action.domains, ())),
        snapshot=member(
            requests.SetSnapshotVersion,
            lambda action: (action.last_commit_version, action.last_commit_timestamp_ms),
            None,
        ),
    )
    _disjoint(update.set, update.remove, "property")
    _disjoint(update.set_domains, update.remove_domains, "domain")
    for value in update.snapshot or ():
        _check_range(value, 0, "last-commit-version")
    check_published(update.published, update.commit)
    return update


def checked_domains(domains: dict[str, dict[str, Any] | None] | None) -> dict[str, dict[str, Any]]:
    """Returns the domains without nulls.

    Raises:
        InvalidRequest: ``domains`` sets none, or has a value that no client could read again.
    """
    checked = {name: value for name, value in (domains or {}).items() if value is not None}
    check_numbers(checked, "domain-metadata")
    if domains is not None and not checked:
        raise InvalidRequest("set-domain-metadata sets no domain", field="updates")
    clustering = checked.get(CLUSTERING, {}).get("clusteringColumns", [])
    if not isinstance(clustering, list) or not all(
        isinstance(path, list) and all(isinstance(part, str) for part in path) for path in clustering
    ):
        raise InvalidRequest(f"{CLUSTERING}.clusteringColumns must be a list of paths", field="updates")
    return checked


def without_feature(domains: Iterable[str], features: Container[str]) -> list[str]:
    """The domains whose writer feature is not among ``features``."""
    return [domain for domain in domains if domain in DOMAINS and DOMAINS[domain] not in features]


def check_features(domains: Iterable[str], features: Container[str]) -> None:
    """Raises InvalidRequest for a domain without its writer feature."""
    for domain in without_feature(domains, features):
        raise InvalidRequest(f"domain {domain} needs the feature {DOMAINS[domain]!r}", field="domain-metadata")


def checked_commit(commit: requests.Commit) -> requests.Commit:
    """Returns ``commit`` if its members are in range and its name is a plain file name of any form."""
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
    """Checks that a claimed backfill is not above ``latest``, the table's version before the update.

    A late commit is not checked: a client that lost a race may know already that the winner is published, and has to get
    the conflict.

    Raises:
        InvalidRequest: more is claimed to be published than there is.
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


def _disjoint(set: Iterable[str], removed: Iterable[str], what: str) -> None:
    both = sorted({*set} & {*removed})
    if both:
        raise InvalidRequest(f"{what} {both[0]!r} is both set and removed", field="updates")

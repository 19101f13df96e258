"""One update as a whole: its requirements and actions in one value, judged before anything is read."""

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
"""Domains that the API names, and the writer feature that each of them needs; others are taken as well."""

_NAME_BYTES: Final = 255

T = TypeVar("T")


class TableUpdate(msgspec.Struct, frozen=True):
    """What an update asks for; None (or UNSET for the comment) where it says nothing.

    ``columns`` in Delta's JSON; ``published`` the claimed backfill; ``snapshot`` version and time (ms) that an external
    table's metadata reflects; ``replace`` whether ``set`` replaces all properties; ``table_location`` is filled in when known.
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
        """Whether it says anything about metadata other than row tracking's."""
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


def table_update(asked: requests.Update) -> TableUpdate:
    """The update as one value.

    Raises:
        InvalidRequest: no action, no uuid, two of a kind, something both set and removed, a value out of range.
    """
    if not asked.updates:
        raise InvalidRequest("updates must hold at least one action", field="updates")
    required = _by_kind(asked.requirements, "requirements")
    actions = _by_kind(asked.updates, "updates")
    uuid = required.get(requests.AssertUuid)
    if uuid is None:
        raise InvalidRequest("the requirement assert-table-uuid is missing", field="requirements")

    def said(kind: type[T], read: Callable[[T], Any], default: Any) -> Any:
        action = actions.get(kind)
        return default if action is None else read(action)

    etag = required.get(requests.AssertEtag)
    add = actions.get(requests.AddCommit)
    domains = said(requests.SetDomains, lambda one: one.updates, None)
    columns = said(requests.SetColumns, lambda one: to_delta(one.columns), None)
    partitions = said(requests.SetPartitions, lambda one: one.partition_columns, None)
    if columns is not None and partitions is not None:
        check_partitions(partitions, columns)
    made = TableUpdate(
        uuid=check_uuid(uuid.uuid, "assert-table-uuid"),
        etag=etag.etag if etag else None,
        commit=checked_commit(add.commit) if add else None,
        uniform=add.uniform.iceberg if add and add.uniform else None,
        published=said(requests.SetPublished, lambda one: one.latest_published_version, None),
        set=said(requests.SetProperties, lambda one: one.updates, {}),
        remove=tuple(said(requests.RemoveProperties, lambda one: one.removals, ())),
        columns=columns,
        partitions=partitions,
        comment=said(requests.SetComment, lambda one: one.comment, msgspec.UNSET),
        protocol=said(requests.SetProtocol, lambda one: one.protocol.to_delta(), None),
        set_domains=checked_domains(domains),
        remove_domains=tuple(said(requests.RemoveDomains, lambda one: one.domains, ())),
        snapshot=said(
            requests.SetSnapshotVersion, lambda one: (one.last_commit_version, one.last_commit_timestamp_ms), None
        ),
    )
    _disjoint(made.set, made.remove, "property")
    _disjoint(made.set_domains, made.remove_domains, "domain")
    for value in made.snapshot or ():
        _check_range(value, 0, "last-commit-version")
    check_published(made.published, made.commit)
    return made


def checked_domains(domains: dict[str, dict[str, Any] | None] | None) -> dict[str, dict[str, Any]]:
    """Domains without nulls; raises InvalidRequest when there are none, though some were to be set, or for what no
    client could read again."""
    found = {name: value for name, value in (domains or {}).items() if value is not None}
    check_numbers(found, "domain-metadata")
    if domains is not None and not found:
        raise InvalidRequest("set-domain-metadata sets no domain", field="updates")
    clustering = found.get(CLUSTERING, {}).get("clusteringColumns", [])
    if not isinstance(clustering, list) or not all(
        isinstance(path, list) and all(isinstance(part, str) for part in path) for path in clustering
    ):
        raise InvalidRequest(f"{CLUSTERING}.clusteringColumns must be a list of paths", field="updates")
    return found


def lacking(domains: Iterable[str], features: Container[str]) -> list[str]:
    """The domains whose writer feature is not among ``features``."""
    return [domain for domain in domains if domain in DOMAINS and DOMAINS[domain] not in features]


def check_features(domains: Iterable[str], features: Container[str]) -> None:
    """Raise InvalidRequest for a domain without its writer feature."""
    for domain in lacking(domains, features):
        raise InvalidRequest(f"domain {domain} needs the feature {DOMAINS[domain]!r}", field="domain-metadata")


def checked_commit(commit: requests.Commit) -> requests.Commit:
    """``commit`` if its members are in range and its name is a plain file name; the name's form is free."""
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
    """A claimed backfill is a version; the one of a first commit is not looked at."""
    if published is not None and (commit is None or commit.version != 1):
        _check_range(published, 0, "latest-published-version")


def check_bound(asked: TableUpdate, latest: int) -> None:
    """A claimed backfill is not above ``latest``, the version before what the request asks for.

    A commit that is late is judged by its version alone: whoever lost a race may know already that the winner is
    published, and has to be told of the conflict.

    Raises:
        InvalidRequest: more is claimed to be published than there is.
    """
    if asked.published is None or (asked.commit is not None and asked.commit.version <= max(latest, 1)):
        return
    if asked.published > latest or (asked.commit is None and latest == 0):
        raise InvalidRequest(
            f"version {asked.published} cannot be published: the latest commit is {latest}",
            field="latest-published-version",
        )


def _check_range(value: int, least: int, field: str) -> None:
    if not least <= value <= MAX_VERSION:
        raise InvalidRequest(f"{field} must be between {least} and {MAX_VERSION}, not {value}"[:300], field=field)


def _by_kind(found: Iterable[Any], field: str) -> dict[Any, Any]:
    kinds: dict[Any, Any] = {}
    for one in found:
        if type(one) in kinds:
            raise InvalidRequest(f"{one.__struct_config__.tag} is there twice", field=field)
        kinds[type(one)] = one
    return kinds


def _disjoint(set: Iterable[str], removed: Iterable[str], what: str) -> None:
    both = sorted({*set} & {*removed})
    if both:
        raise InvalidRequest(f"{what} {both[0]!r} is both set and removed", field="updates")

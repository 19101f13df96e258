"""The actions about a table as a whole that are in force at a version: protocol, metadata,
domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import DomainMetadata, Metadata, Protocol, Txn
from turnstile.delta.log.lines import broken
from turnstile.store.core.errors import UnsupportedTable

_TYPES: Final[dict[str, Any]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "domainMetadata": DomainMetadata,
    "txn": Txn,
}


class Start(msgspec.Struct, frozen=True):
    """The state at some version, wherever it was read. ``domains`` maps names to configurations."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, str]
    source: str


class InForce:
    """The actions about the table as a whole that are in force: of each kind, domain or application
    the newest one. Superseded ones are not checked, as in Delta: some writers begin a table with
    invalid metadata.
    """

    def __init__(self, start: Start | None = None) -> None:
        self.actions = dict[str, dict[str, Any]]()
        self._wheres = dict[str, tuple[str, str]]()
        if start is not None:
            self.actions |= {"protocol": start.protocol, "metaData": start.metadata}

    def apply(self, name: str, body: Any, where: str) -> None:
        """Takes the next action; ``where`` says in messages where it is."""
        by = {"domainMetadata": "domain", "txn": "appId"}.get(name)
        key = name if by is None else f"{name}/{body.get(by) if isinstance(body, dict) else body}"
        self.actions[key] = body
        self._wheres[key] = (name, where)

    def of_kind(self, name: str) -> list[dict[str, Any]]:
        """The newest action of each domain (``domainMetadata``) or application (``txn``)."""
        return [body for key, body in self.actions.items() if key.startswith(f"{name}/")]

    def check(self) -> None:
        """Checks the actions in force, and brings them into one form. Raises UnsupportedTable as
        ``typed_action``."""
        for key, (name, where) in self._wheres.items():
            self.actions[key] = typed_action(name, self.actions[key], where)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields where something is in force that ``check`` refuses, and why."""
        for key, (name, where) in self._wheres.items():
            try:
                typed_action(name, self.actions[key], where)
            except UnsupportedTable as error:
                yield where, error.message


def typed_action(name: str, body: Any, where: str) -> dict[str, Any]:
    """``body`` with the members of its action in their types, and accepted variants in one form: a
    property that is null was not set, a domain exists unless it says that it is removed. Raises
    UnsupportedTable for other members.
    """
    try:
        members = msgspec.convert(body, dict[str, Any])
        properties = members.get("configuration")
        if name == "metaData" and isinstance(properties, dict) and None in properties.values():
            members["configuration"] = {key: value for key, value in properties.items() if value is not None}
        if name == "domainMetadata" and members.get("removed") is None:
            members["removed"] = False
        msgspec.convert({member: value for member, value in members.items() if value is not None}, _TYPES[name])
    except msgspec.ValidationError as error:
        raise broken(f"{name} of {where}: {error}") from None
    return members


def apply_domains(domains: Mapping[str, str], changes: list[dict[str, Any]]) -> dict[str, str]:
    """Domains after the domainMetadata actions ``changes``."""
    after = dict(domains)
    for change in changes:
        if change.get("removed"):
            after.pop(str(change.get("domain")), None)
        else:
            after[str(change.get("domain"))] = str(change.get("configuration") or "")
    return after

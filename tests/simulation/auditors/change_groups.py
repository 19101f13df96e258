"""Compares the answers to changes of a catalog with the states that it had (I21)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.processes import CATALOG

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

Kind = Literal["create", "drop", "ensure", "claim"]

REFUSED: Final = {"create": True, "drop": False, "ensure": True}
"""Whether the name is there in a state that refuses a change of a kind, or leaves it nothing to
do."""


@dataclass(frozen=True)
class Asked:
    """A change that was asked for when the catalog was in the state number ``since``."""

    id: str
    kind: Kind
    name: str
    since: int


class ChangeAuditor:
    """Listens to the trees' auditor. A change's id is the message of its commit.

    Attributes:
        keyed: ids of changes that have an idempotency key.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._names: list[frozenset[str]] = []
        self._messages: list[str] = []
        self._refused = set[str]()
        self.keyed = set[str]()
        state.trees.listeners.append(self._changed)
        if (head := state.trees.now.get(CATALOG)) is not None:
            self._changed(head, None)

    def asked(self, id: str, kind: Kind, name: str) -> Asked:
        return Asked(id, kind, name, len(self._names) - 1)

    @audits
    def acknowledged(self, asked: Asked) -> None:
        if self._messages[asked.since + 1 :].count(asked.id) != 1:
            raise Violation("I21", f"{asked} was acknowledged and is no commit since it was asked for")

    @audits
    def unchanged(self, asked: Asked) -> None:
        self._require_state(asked, "had nothing to do")

    @audits
    def refused(self, asked: Asked, *, by_row: bool) -> None:
        """The change was refused for good, by the tree or by a row of its own."""
        if not by_row:
            self._require_state(asked, "was refused")
        self._refused.add(asked.id)
        self._require_no_commit(asked.id)

    @audits
    def refused_by_another(self, asked: Asked, error: Exception) -> None:
        """The change was told an error that none of its own could be."""
        raise Violation("I21", f"{asked} was refused with {error!r}")

    def _require_state(self, asked: Asked, what: str) -> None:
        there = REFUSED[asked.kind]
        if not any((asked.name in names) is there for names in self._names[asked.since :]):
            raise Violation("I21", f"{asked} {what}, and no state since it was asked for says so")

    def _require_no_commit(self, id: str) -> None:
        if id in self._messages:
            raise Violation(self._once(id), f"{id} was refused and is applied")

    def _once(self, id: str) -> str:
        """The invariant by which a change is applied once, or never."""
        return "I3" if id in self.keyed else "I21"

    @audits
    def _changed(self, head: SeenHead, _before: SeenHead | None) -> None:
        if head.catalog != CATALOG:
            return
        message = head.commit.message
        if message in self._messages:
            raise Violation(self._once(message), f"{message} is applied twice")
        self._names.append(frozenset(head.names("namespace")))
        self._messages.append(message)
        if message in self._refused:
            raise Violation(self._once(message), f"{message} was refused and is applied")

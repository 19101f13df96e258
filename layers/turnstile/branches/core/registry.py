"""The registry of a table's branches by Delta's proposal: the domain ``delta.tableBranching`` of
its log. Pure (ADR 85).

Sources: delta-io/delta 7439 and 7440, "The delta.tableBranching Metadata Domain"; Delta protocol,
"Domain Metadata".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.branches.core.paths import Action
from turnstile.delta.core.actions import NOT_JSON
from turnstile.delta.core.definition import BRANCHES_DOMAIN
from turnstile.delta.core.protocols import Protocol, as_features

OPEN: Final = "open"
PUBLISHED: Final = "published"

ENDED_MAX: Final = 50
"""Branches in a registry that are not open; older ones leave it."""


class BranchRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A branch in the registry of a table, with the members of the proposal.

    Attributes:
        branchId: the uuid of the branch's table, and the name of its folder.
        baseVersion: of the catalog's table that the branch is based on; ``createdVersion`` that of
            the commit with this entry; ``publishedVersion`` that of the promotion.
    """

    branchId: str
    name: str
    baseVersion: int
    createdVersion: int
    status: str
    publishedVersion: int | None = None


def registry_with(text: str | None, ref: BranchRef, protocol: Protocol) -> Action | None:
    """Returns the ``domainMetadata`` of the registry ``text`` with ``ref``, which replaces an entry
    of the same id. Entries and members of other writers stay. None for a table without the feature,
    and where ``text`` is no registry of the proposal."""
    if "domainMetadata" not in as_features(protocol)[1]:
        return None
    try:
        registry = msgspec.json.decode(text or "{}", type=dict[str, Any])
        found = msgspec.convert(registry.get("branches", []), list[dict[str, Any]])
    except NOT_JSON:
        return None
    branches = [each for each in found if each.get("branchId") != ref.branchId]
    branches.append(msgspec.to_builtins(ref))
    ended = [position for position, each in enumerate(branches) if each.get("status") != OPEN]
    surplus = frozenset(ended[:-ENDED_MAX])
    branches = [each for position, each in enumerate(branches) if position not in surplus]
    configuration = msgspec.json.encode({**registry, "branches": branches}).decode()
    return {"domain": BRANCHES_DOMAIN, "configuration": configuration, "removed": False}

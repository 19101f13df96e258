"""Who may clone what (I12): whoever may read everything that is cloned, and may create what comes of it.

Reading a namespace with all that is below is one question, about rights that hold for what is below as well. So a
refusal says nothing about what is there. The catalog's past is its owner's business, as its log and its snapshots are.
"""

from __future__ import annotations

from turnstile.core.access_rules import create_schema, create_table, edit_catalog, permitted, read_schema, read_table
from turnstile.core.catalog_paths import Path, dotted
from turnstile.core.entities import NAMESPACE
from turnstile.core.errors import PermissionDenied
from turnstile.core.principal import Principal
from turnstile.core.tree import Tree
from turnstile.services.access import AccessControl, Target, allowed


class CloneRights:
    """Judges the clones of one request.

    Args:
        access: finds rights without judging.
        principal: who asks.
    """

    def __init__(self, access: AccessControl, principal: Principal) -> None:
        self._access, self._principal = access, principal

    def __call__(self, now: Tree, source: Path, kind: str | None, to: Path, *, past: bool) -> None:
        """Let the request pass, by the rights in the tree that it would replace.

        Args:
            kind: of what ``source`` leads to; None when it leads nowhere.
            past: whether it is cloned as of a moment of the past.

        Raises:
            PermissionDenied: a right is missing, whether or not anything exists.
        """
        if self._principal.admin:
            return
        catalog, there = now.catalog, kind is not None or not source
        whole = not there or not source or kind == NAMESPACE
        judge = permitted if there else allowed  # what is not there may be told to be missing, not read
        held = judge(
            read_schema if whole else read_table,
            self._principal,
            self._access.chain(now, Target(catalog, source) if whole else Target(catalog, source[:-1], source[-1])),
        )
        if past:
            held = held and permitted(edit_catalog, self._principal, self._access.chain(now, Target(catalog)))
        if there:
            made = self._access.chain(now, Target(catalog, to if whole else to[:-1]))
            held = held and allowed(create_schema if whole else create_table, self._principal, made)
        if not held:
            raise PermissionDenied(
                f"'{self._principal.name}' may not clone '{dotted(catalog, *source)}' to '{dotted(catalog, *to)}'",
                remedy="ask for SELECT on the one and for leave to create the other; of a past moment, ask the catalog's owner",
            )

"""Rights to bring a dropped table back (I12): the rights that dropping it took, on the table as it
was.

Rights on the entities around the table are the present ones, as long as these entities exist. For a
namespace that is gone, or was replaced by another one of the same name, its past rights count. The
right to give the name is checked as for a new table.
"""

from __future__ import annotations

from turnstile.access.authorizer import Authorizer, Target, access_of
from turnstile.catalog.core.entities import is_same
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.dropped import PastTable
from turnstile.rights.grants import Access, Principal
from turnstile.rights.rules import Chain, edit_schema, edit_table, is_permitted
from turnstile.store.core.errors import PermissionDenied


class UndropRights:
    """Authorizes the undrop of one request. ``authorizer`` reads rights without checking them."""

    def __init__(self, authorizer: Authorizer, principal: Principal) -> None:
        self._authorizer = authorizer
        self._principal = principal

    def __call__(self, now: Tree, path: Path, past: PastTable | None) -> None:
        """Raises PermissionDenied unless the principal might have dropped the entity of ``path``;
        in the same words if there was none."""
        if self._principal.admin:
            return
        if past is None:
            around = self._authorizer.chain(now, Target(now.catalog, path[:-1]))
            granted = is_permitted(edit_schema, self._principal, around)
        else:
            granted = is_permitted(edit_table, self._principal, self._chain(now, path, past))
        if not granted:
            raise PermissionDenied(
                f"'{self._principal.name}' may not undrop '{dotted_name(now.catalog, *path)}'",
                remedy="ask its owner, or the owner of its namespace or catalog; if it was there",
            )

    def _chain(self, now: Tree, path: Path, past: PastTable) -> Chain:
        levels = [self._level(now, path[:depth], past.tree) for depth in range(1, len(path))]
        return Chain(now.commit.access, tuple(levels), past.entity.access)

    def _level(self, now: Tree, path: Path, then: Tree) -> Access:
        """The rights on a namespace around the table: of now if it is the same one."""
        before = then.find(path)
        after = now.find(path)
        assert before is not None
        there = self._authorizer.entities(then, [before.obj])[before.obj]
        here = there if after is None else self._authorizer.entities(now, [after.obj])[after.obj]
        return access_of(here if is_same(there, here) else there)

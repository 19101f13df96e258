"""Rights to promote a branch (I12): ``PROMOTE`` along each name that the promotion changes, by the
rights of the catalog, not of the branch.

The names come from the branch, which the principal manages. For a name that the catalog lacks, the
right is asked on the last level that exists. So a refusal does not show names of the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnstile.access.authorizer import Target, chains_in
from turnstile.branches.core.asked_names import AskedName
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.reader import View
from turnstile.rights.grants import Principal
from turnstile.rights.rules import Chain, branch_catalog, edit_catalog, is_permitted, promote


class PromotionRights:
    """Authorizes the promotions of one request."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def __call__(self, view: View, names: Sequence[AskedName], *, updates: bool = False) -> list[str]:
        """Returns the reasons why the principal may not change these names in the tree of ``view``,
        nor, where the write ``updates`` the branch, see all of the catalog. No request for owners
        of the catalog; else one for a hundred entities that are not cached."""
        catalog = view.tree.catalog
        whole = Chain(view.tree.commit.access)
        if updates and not is_permitted(branch_catalog, self._principal, whole):
            return [f"'{self._principal.name}' may not read all of '{catalog}', which the branch would show"]
        if is_permitted(edit_catalog, self._principal, whole):
            return []
        targets = [Target(catalog, *name.chain) for name in names]
        chains = zip(names, targets, chains_in(view, targets), strict=True)
        return [
            self._reason(name, target) for name, target, chain in chains if not self._is_permitted(_existing(chain))
        ]

    def _is_permitted(self, chain: Chain) -> bool:
        return is_permitted(promote, self._principal, chain)

    def _reason(self, name: AskedName, target: Target) -> str:
        written = dotted_name(*name.path)
        if name.change == "changed":
            return f"'{self._principal.name}' may not promote changes of '{written}'"
        kind = "namespace" if target.path else "catalog"
        return f"'{self._principal.name}' may not promote in {kind} '{target}', where '{written}' was {name.change}"


def _existing(chain: Chain) -> Chain:
    return chain if chain.missing is None else chain.upto(chain.missing)

"""The one write of a promotion or an update."""

from __future__ import annotations

from collections.abc import Callable

from turnstile.branches.comparison import Comparison
from turnstile.branches.refusals import refuse_changed_branch
from turnstile.catalog.changes.commit import CatalogChange, ChangeFunction
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.changes.transactions import Applied, CatalogTransactions
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import GroupRequest
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.store.core.errors import ErrorType, TurnstileError


def branch_change(edit: ChangeFunction, authorize: Callable[[View], None] = lambda _view: None) -> GroupChange:
    """Returns the change of the catalog, with a row of the branch, as a member of the write."""
    return GroupChange(CatalogChange(edit, refuse_changed_branch), authorize)


def commit_at_once(
    services: CatalogServices, groups: GroupRatifier, plan: Comparison, group: GroupRequest, change: GroupChange
) -> Applied | None:
    """Commits a change of the catalog with a group of commits of its tables and the branch's.
    Returns None where a table got a commit since ``plan``: it has to be computed again. Raises the
    errors of ``change`` and of a transaction."""
    transactions = CatalogTransactions(groups, services.committer)
    try:
        outcome = transactions.commit(plan.catalog.catalog, group, [change], with_branch=plan.base.branch)
        if not isinstance(outcome, Applied) and outcome.change is not None:
            raise outcome.change.error
    except TurnstileError as error:
        error.field = "branch" if error.type == ErrorType.BRANCH_CONFLICT else None
        raise
    return outcome if isinstance(outcome, Applied) else None

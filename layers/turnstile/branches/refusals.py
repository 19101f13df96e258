"""Refusals of promotions and updates of branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turnstile.catalog.history.core import NamedSnapshot
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import ErrorType, PermissionDenied, StateConflict, first_of
from turnstile.store.core.writes import Row

BEGIN_ANEW: Final = "make a new branch, and do there again what is in conflict"
CONFLICTS_MAX: Final = 50
"""Conflicts, and names without the right to promote, of one refusal."""


def conflict(
    branch: str, reasons: Sequence[str], *, remedy: str = BEGIN_ANEW, change: str = "promoted"
) -> StateConflict:
    """Returns the refusal of a branch that cannot be promoted or updated (``change``)."""
    return StateConflict(
        ErrorType.BRANCH_CONFLICT,
        f"branch '{branch}' cannot be {change}: {first_of(reasons)}"[:2_000],
        field="branch",
        remedy=remedy,
        conflicts=list(reasons[:CONFLICTS_MAX]),
        count=len(reasons),
    )


def require_rights(branch: str, reasons: Sequence[str], *, change: str = "promoted") -> None:
    """Raises PermissionDenied for a promotion, or a record of checks, with ``reasons`` why its
    principal may not make it."""
    if reasons:
        raise PermissionDenied(
            f"branch '{branch}' cannot be {change}: {first_of(reasons)}",
            remedy="ask for PROMOTE on these names of the catalog or above, or ask the owner of the catalog",
            missing=list(reasons[:CONFLICTS_MAX]),
            count=len(reasons),
        )


def busy(branch: str) -> StateConflict:
    """Returns the refusal of a request that other writers of the branch were faster than."""
    problem = f"branch '{branch}', or a table that it changes, was written faster than the request could be carried out"
    return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="send the request again", retry_after_ms=1_000)


def refuse_changed_branch(failed: Mapping[int, Row | None]) -> None:
    """Raises StateConflict for rows of a branch that were changed since they were read."""
    if failed:
        problem = "the branch was changed while the request was carried out"
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="send the request again", retry_after_ms=0)


def late_commit(head: TableHead, base: NamedSnapshot, name: str) -> str | None:
    """Returns the reason why a table that a branch dropped cannot be dropped in the catalog: a
    commit since the base. None if it can."""
    if head.last_ict <= base.at // 1000:
        return None
    return f"'{name}' was dropped on the branch and got version {head.latest} in the catalog"

"""Proposing a group of commits, one for each of several tables, until its outcome is known.

The server ratifies all of them or none (I8), and recognises a group that it has ratified by its id.
So after an attempt whose answer was lost, the same request is sent again until an answer is final
(I2, I3).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from turnstile_http.api import Api, Commit
from turnstile_http.errors import ApiError
from turnstile_http.proposals import outcome_of
from turnstile_spark.errors import TransactionConflict, TransactionOutcomeUnknown

#: Refusals of a group that another attempt, from a new cut, may not meet. Only the first has
#: members.
CONFLICTS = frozenset(
    ("TransactionConflict", "CommitVersionConflict", "ReloadRequired", "StaleMetadata", "ConcurrentChange")
)


@dataclass(frozen=True, slots=True)
class Group:
    """A group as it is sent, every time the same. ``body``: the request; ``txn_id``: of its first
    commit."""

    id: str
    txn_id: str
    body: dict[str, Any]

    @property
    def has_changes(self) -> bool:
        """Whether the catalog takes part in it: by changes of it, or reads."""
        return "changes" in self.body


@dataclass(frozen=True, slots=True)
class RatifiedGroup:
    """The commits of a ratified group, by table id, and the requests that it took to learn of
    it."""

    commits: dict[str, Commit]
    requests: int


def ratify_group(api: Api, group: Group, deadline: float, *, is_open: bool = False) -> RatifiedGroup:
    """Sends a group until it is ratified or refused for good, at most ``deadline`` seconds.

    ``is_open``: it was sent before, and the outcome is unknown. Raises :class:`TransactionConflict`
    and :class:`ApiError` when it was refused and can never become ratified any more, and
    :class:`TransactionOutcomeUnknown` when that is not known in time.
    """
    until = time.monotonic() + deadline
    requests = 0

    def attempt() -> RatifiedGroup:
        nonlocal is_open, requests
        requests += 1
        try:
            response = api.transact(group.body)
            commits = {c["table_id"]: Commit.read(c["commit"]) for c in response["commits"]}
            return RatifiedGroup(commits, requests)
        except ApiError as e:
            if e.ambiguous:
                is_open = True
            elif is_open and not e.transient:
                if group.has_changes and not _is_remembered(e):
                    raise ApiError(0, "NoAnswer", f"unknown after {e}") from None
                if not group.has_changes and not _excludes_earlier(e):
                    raise _refusal(api, group, e) from None
            raise

    try:
        return api.http.retrying(until)(attempt)
    except ApiError as e:
        if is_open and e.transient:
            raise TransactionOutcomeUnknown(group.id, deadline, e) from e
        if e.type in CONFLICTS or (group.has_changes and _is_of_change(e)):
            raise TransactionConflict(group.id, e) from None
        raise


def _is_remembered(refused: ApiError) -> bool:
    """Whether the server remembers this refusal of a transaction with changes of the catalog, so
    that no earlier attempt with the same id can be applied any more."""
    return (refused.status == 409 and refused.type != "ConcurrentChange") or _is_of_change(refused)


def _is_of_change(refused: ApiError) -> bool:
    """Whether a change, or read, of the catalog was refused because its entity does not exist, or
    not any more."""
    field = str(refused.body.get("field"))
    return refused.status == 404 and field.startswith(("changes[", "catalog_reads["))


def _excludes_earlier(refused: ApiError) -> bool:
    """Whether an earlier attempt of the same group can have no other outcome: a version that it
    needs is another commit's, or a version that it read is no more the latest, for good; or the
    journal says that it was aborted.
    """
    types = {refused.type, *(member.get("type") for member in refused.body.get("members") or [])}
    return not types.isdisjoint(("CommitVersionConflict", "TransactionAborted"))


def _refusal(api: Api, group: Group, refused: ApiError) -> ApiError:
    """The exception after a refusal that does not exclude an earlier attempt: the refusal, if the
    earlier one can never be applied; else an error after which the same group is sent again (the
    answer to a ratified one is its commits).
    """
    first = group.body["commits"][0]
    outcome = outcome_of(api, first["table_id"], first["version"], group.txn_id)
    if outcome.outcome == "never":
        return refused
    return ApiError(0, "NoAnswer", f"{outcome.outcome} after {refused}")

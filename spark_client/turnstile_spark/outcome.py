"""Proposing a commit until its outcome is known.

Delta must never be told "conflict" or "try again" about a commit that is ratified or may still be: it would commit the
same data a second time as another version. So after an attempt whose outcome could not be learned, the only thing
allowed is to send the *same* proposal again (the server recognises it by its txn id) until an answer is final
(invariants I2 and I3).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from turnstile_spark.answers import Commit
from turnstile_spark.api import Api
from turnstile_spark.errors import ApiError


@dataclass(frozen=True, slots=True)
class Ratified:
    """The proposal is version ``commit.version``; ``latest`` is the table's newest version known."""

    commit: Commit
    latest: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A commit as it is sent, every time the same: ``body`` is the request."""

    table_id: str
    version: int
    txn_id: str
    body: dict[str, Any]


class OutcomeUnknown(Exception):
    """The deadline passed and the server never said what became of the proposal."""

    def __init__(self, it: Proposal, seconds: float, last: ApiError) -> None:
        super().__init__(
            f"the outcome of this commit (version {it.version}, transaction {it.txn_id}) is unknown: no final answer within "
            f"{seconds:.0f} s. It may have been committed, or may not. Do not simply run the statement again: ask "
            f"first with lake.table(...).outcome(txn_id='{it.txn_id}', version={it.version}), or "
            f"GET /v1/tables/{it.table_id}/outcome?txn_id={it.txn_id}&version={it.version}. Last failure: {last}"
        )


def ratify(api: Api, proposal: Proposal, deadline: float) -> Ratified:
    """Sends ``proposal`` until it is ratified or refused for good, at most ``deadline`` seconds.

    Raises :class:`ApiError` when the proposal was refused and can never become ratified any more, and
    :class:`OutcomeUnknown` when the deadline passed without that being known.
    """
    until = time.monotonic() + deadline
    open_attempt = False  # an attempt was made that may have been, or may still be, carried out

    def attempt() -> Ratified:
        nonlocal open_attempt
        try:
            answer = api.propose(proposal.table_id, proposal.body)
            return Ratified(Commit.read(answer["commit"]), answer["latest"])
        except ApiError as e:
            if e.ambiguous:
                open_attempt = True
            elif open_attempt and not e.transient and e.type != "CommitVersionConflict":
                # A conflict is final by itself: the version belongs to somebody else. After any other refusal an
                # earlier attempt may still land, so the outcome decides.
                return _settle(api, proposal, e)
            raise

    try:
        return api.http.retrying(until)(attempt)
    except ApiError as e:
        if open_attempt and e.transient:
            raise OutcomeUnknown(proposal, deadline, e) from e
        raise


def _settle(api: Api, proposal: Proposal, refused: ApiError) -> Ratified:
    """Asks for the outcome after a refusal that does not exclude an earlier attempt."""
    found = api.outcome(proposal.table_id, proposal.version, txn_id=proposal.txn_id)
    if found.outcome == "ratified":
        for commit in api.commits(proposal.table_id, found.version, found.version).commits:
            return Ratified(commit, found.latest)
        # Published and gone from the tail: the proposal was ratified all the same, and a replay would say so.
        raise ApiError(0, "NoAnswer", f"version {found.version} is ratified; its entry has left the tail")
    if found.outcome == "never":
        raise refused
    raise ApiError(0, "NoAnswer", f"still open after {refused}")

"""Sends the proposal of a commit to the server until its outcome is known.

After an attempt with an unknown outcome, a client may only send the *same* proposal again (the
server recognises it by its txn id) until an answer is final (I2, I3).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from turnstile_http.api import Api, Commit, Outcome
from turnstile_http.errors import ApiError


@dataclass(frozen=True, slots=True)
class Ratified:
    """The proposal is version ``commit.version``; ``latest`` is the table's newest version
    known."""

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
    """The deadline passed without a final answer about the proposal."""

    def __init__(self, proposal: Proposal, seconds: float, last: ApiError) -> None:
        super().__init__(
            f"the outcome of this commit (version {proposal.version}, transaction {proposal.txn_id}) is unknown: no "
            f"final answer within {seconds:.0f} s. It may have been committed, or may not. Do not simply run the "
            f"statement again: ask first with lake.table(...).outcome(txn_id='{proposal.txn_id}', "
            f"version={proposal.version}), or GET "
            f"/v1/tables/{proposal.table_id}/outcome?txn_id={proposal.txn_id}&version={proposal.version}. Last "
            f"failure: {last}"
        )


def ratify(api: Api, proposal: Proposal, deadline: float) -> Ratified:
    """Sends ``proposal`` until it is ratified or refused for good, at most ``deadline`` seconds.

    Raises :class:`ApiError` when the proposal was refused and can never become ratified any more,
    and :class:`OutcomeUnknown` when the deadline passed without that being known.
    """
    until = time.monotonic() + deadline
    open_attempt = False  # an attempt was made that may have been, or may still be, carried out

    def attempt() -> Ratified:
        nonlocal open_attempt
        try:
            response = api.propose(proposal.table_id, proposal.body)
            return Ratified(Commit.read(response["commit"]), response["latest"])
        except ApiError as e:
            if e.ambiguous:
                open_attempt = True
            elif open_attempt and not e.transient and e.type != "CommitVersionConflict":
                # A conflict is final by itself: the version belongs to another commit. After any
                # other refusal an earlier attempt may still land, so the outcome decides.
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
    settled = outcome_of(api, proposal.table_id, proposal.version, proposal.txn_id)
    if settled.outcome == "ratified":
        try:
            tail = api.commits(proposal.table_id, settled.version, settled.version)
        except ApiError as e:  # says nothing of the commit, such as of a token that has expired meanwhile
            raise ApiError(0, "NoAnswer", f"version {settled.version} is ratified; it cannot be read: {e}") from e
        for commit in tail.commits:
            return Ratified(commit, settled.latest)
        # Published and gone from the tail. The proposal is ratified; sending it again returns its
        # commit.
        raise ApiError(0, "NoAnswer", f"version {settled.version} is ratified; its entry has left the tail")
    if settled.outcome == "never":
        raise refused
    raise ApiError(0, "NoAnswer", f"still open after {refused}")


def outcome_of(api: Api, table_id: str, version: int, txn_id: str) -> Outcome:
    """Returns the outcome of an attempt after its answer was lost. A refusal of this question, such
    as of a token that has expired meanwhile, says nothing of the attempt: it is raised as an error,
    and the caller asks again from the start.
    """
    try:
        return api.outcome(table_id, version, txn_id=txn_id)
    except ApiError as e:
        raise ApiError(0, "NoAnswer", f"the outcome cannot be asked for: {e}") from e

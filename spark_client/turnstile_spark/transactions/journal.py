"""The journal of transactions, from the client's side: announcing one, and finishing or undoing
transactions of dead clients.

A transaction with ``journal=True`` is announced before it is sent: one request more for every
proposal of it. From then on the server knows its commits, and a principal with the rights to commit
it can resume or abort it by its id. The group is committed together with its entry, in one write;
so the entry has the outcome (docs/transactions.md).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_spark.errors import TransactionConflict, TransactionOutcomeUnknown, TurnstileError, as_turnstile_error
from turnstile_spark.transactions.groups import CONFLICTS, Group


class Announcer:
    """Announces one transaction, every set of commits that it proposes as an attempt of its own."""

    def __init__(self, api: Api, isolation: str) -> None:
        self._api = api
        self._isolation = isolation
        self._body: dict[str, Any] | None = None
        self._attempt = 0
        #: Whether there may be an entry.
        self.is_announced = False
        self._may_arrive = False  # an announcement whose answer was lost, and none was accepted since

    def announce(self, group: Group, deadline: float) -> None:
        """Writes the group into the journal; the same again is the same attempt.

        Raises :class:`ApiError` when it was refused (``TransactionAborted``: another client has
        undone it), and :class:`TransactionOutcomeUnknown` when it is not known whether it is there:
        then another client may finish it.
        """
        if group.body is not self._body:
            self._body = group.body
            self._attempt = self._attempt + 1
        body = {name: part for name, part in group.body.items() if name not in ("id", "journal")}
        body |= {"attempt": self._attempt, "isolation": self._isolation}
        is_open = False  # whether an attempt may have arrived

        def attempt() -> None:
            nonlocal is_open
            try:
                self._api.announce(group.id, body)
            except ApiError as e:
                is_open = is_open or e.ambiguous
                if e.type != "TransactionCommitted":  # somebody has finished it: what is sent now is a replay
                    raise

        try:
            self._api.http.retrying(time.monotonic() + deadline)(attempt)
            self.is_announced = True
            self._may_arrive = False
        except ApiError as e:
            self.is_announced = self.is_announced or is_open
            self._may_arrive = self._may_arrive or is_open
            if is_open and e.transient:
                raise TransactionOutcomeUnknown(group.id, deadline, e) from e
            raise

    def withdraw(self, id: str, deadline: float, refused: ApiError | TurnstileError) -> bool:
        """Aborts an announced transaction after it was ``refused``. True when another client has
        committed it meanwhile. Raises :class:`TransactionOutcomeUnknown` when the abort failed, or
        was refused as by a token that has expired, or there is no entry and a lost announcement may
        still make one, and the refusal was a temporary one: another client may finish the
        transaction.
        """
        try:
            self._api.abort(id)
        except ApiError as e:
            if e.type == "TransactionCommitted":
                return True
            is_gone = e.type == "NoSuchTransaction" and not self._may_arrive
            if not is_gone and not _is_lost(refused):
                raise TransactionOutcomeUnknown(id, deadline, e) from e
        return False


def _is_lost(refused: ApiError | TurnstileError) -> bool:
    """Whether a version that the transaction needs is another commit's, for good."""
    return isinstance(refused, TransactionConflict) and any(
        member.get("type") == "CommitVersionConflict" for member in refused.members
    )


@dataclass(frozen=True)
class AnnouncedTransaction:
    """A transaction in the journal: the result of :meth:`turnstile_spark.Lake.transactions`.

    ``state``: open (not applied, and it can be yet), committed, or aborted. ``versions``: by table
    id, the version that each table becomes; ``reads``: that each table had which was only read.
    ``owner``: its principal; ``created``, ``until``: seconds since the epoch, the second the end
    after which it is aborted. ``catalog``: that it changes, or read, as well (empty: it does not).
    """

    id: str
    state: str
    versions: dict[str, int]
    reads: dict[str, int]
    isolation: str
    owner: str
    created: float
    until: float
    catalog: str
    _api: Api

    @classmethod
    def read(cls, api: Api, entry: dict[str, Any]) -> AnnouncedTransaction:
        """From the server's entry."""
        versions, reads = ({t["table_id"]: t["version"] for t in entry[name]} for name in ("commits", "reads"))
        created = entry["created"] / 1000
        until = entry["until"] / 1000
        more = (entry["isolation"], entry["owner"], created, until, entry.get("catalog", ""), api)
        return cls(entry["id"], entry["state"], versions, reads, *more)

    @property
    def is_over(self) -> bool:
        """Whether its end is past: it can be resumed until it is aborted."""
        return time.time() >= self.until

    def resume(self) -> AnnouncedTransaction:
        """Finishes it: sends its commits again. A committed transaction stays unchanged. Returns
        its present state.

        Raises :class:`turnstile_spark.TransactionConflict` when it lost to other commits, and
        :class:`turnstile_spark.TurnstileError`, also when it was aborted.
        """
        try:
            self._api.resume(self.id, self.catalog)
            return self.read(self._api, self._api.entry(self.id))
        except ApiError as e:
            if e.type in CONFLICTS:
                raise TransactionConflict(self.id, e) from None
            raise as_turnstile_error(e) from None

    def abort(self) -> AnnouncedTransaction:
        """Undoes it: nothing of it is applied any more, also if its client lives and sends it.
        Returns it as it is then. Raises :class:`turnstile_spark.TurnstileError`, also when it is
        committed.
        """
        try:
            return self.read(self._api, self._api.abort(self.id))
        except ApiError as e:
            raise as_turnstile_error(e) from None

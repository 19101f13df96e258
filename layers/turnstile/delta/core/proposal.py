"""A proposal: *may this be version v?*, or *may this be the next version?*"""

from __future__ import annotations

import msgspec

from turnstile.delta.core.head import ROW_BUDGET, Entry


class Proposal(msgspec.Struct, frozen=True):
    """One attempt to extend a table.

    Attributes:
        version: the proposed version; None asks for a ticket (the next one, blind appends only).
        base: newest version known not to contain this transaction.
        entry: what the row will carry.
        apps: hashed streaming application ids of its ``txn`` actions.
        asserts: metadata id that must still be current (etag), if it asserts or changes metadata.
        metadata: metadata id that becomes current, if it changes metadata.
        recalled: set after the identity index had no entry for this identity: the ``tail_from`` of the row that
            was looked at. Identities evicted before that position are known not to be this one.
        room: bytes that the tail may carry with it (I11): how long a backlog may grow before it is refused.
    """

    version: int | None
    base: int
    entry: Entry
    apps: tuple[str, ...] = ()
    asserts: str | None = None
    metadata: str | None = None
    recalled: int | None = None
    room: int = ROW_BUDGET

    @property
    def oldest_needed(self) -> int:
        """The tail must still carry everything from this version on (I3).

        The identity index can stand in for evicted transaction ids, but nothing remembers evicted streaming
        applications: a ticket with a ``txn`` needs every entry since its base.
        """
        return self.base + 1 if self.version is None and self.apps else self.identities_needed

    @property
    def identities_needed(self) -> int:
        """The tail must still carry identities from this version on; older ones were looked up in the index (I3)."""
        return max(self.base + 1, self.recalled or 0)

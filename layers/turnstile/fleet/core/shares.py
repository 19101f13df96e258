"""A member's assignment of work, exported for other processes of its machine that do its work.
Pure.

It is a hint, like ownership itself. It is valid for a short time by the machine's monotonic clock;
a process without a valid one treats every owner as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from turnstile.fleet.core.decisions import granule_of


class Ownership(Enum):
    """The member that should do the work on a subject."""

    MINE = "this member"
    OTHERS = "another member, which is well"
    UNSURE = "unknown: each process does it"


class Share(msgspec.Struct, frozen=True):
    """The granules of one role, as a member has cached them.

    Attributes:
        granules: the number of granules of the role.
        mine: granules of this member.
        others: granules of members that are well. The owner of every other granule is unknown.
    """

    granules: int
    mine: frozenset[str]
    others: frozenset[str]


class Shares(msgspec.Struct, frozen=True):
    """The assignment of a member's roles, valid until ``until_ms`` by the machine's monotonic
    clock."""

    until_ms: int = 0
    roles: Mapping[str, Share] = {}

    def whose(self, role: str, subject: str, now_ms: int) -> Ownership:
        """Returns which member should do the work of a role on a subject."""
        share = self.roles.get(role)
        if share is None or now_ms >= self.until_ms:
            return Ownership.UNSURE
        name = granule_of(role, subject, share.granules)
        if name in share.mine:
            return Ownership.MINE
        return Ownership.OTHERS if name in share.others else Ownership.UNSURE

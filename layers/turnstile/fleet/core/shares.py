"""Who should do which work, as a member knows it: for other processes of the same machine that do its work. Pure.

It is a hint, as everything that ownership says. It holds for a short time, by the machine's monotonic clock, and whoever has none is sure of nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from turnstile.fleet.core.decisions import granule_of


class Whose(Enum):
    """Who should do the work on a subject."""

    MINE = "this member"
    OTHERS = "another member, which is well"
    UNSURE = "nobody knows: whoever is asked does it"


class Share(msgspec.Struct, frozen=True):
    """What is known of the granules of one role.

    Attributes:
        granules: how many the role has.
        mine: those of this member.
        others: those of members that are well. Of all that are in neither nobody is sure.
    """

    granules: int
    mine: frozenset[str]
    others: frozenset[str]


class Shares(msgspec.Struct, frozen=True):
    """What a member knows of its roles until ``until_ms``, by the machine's monotonic clock."""

    until_ms: int = 0
    roles: Mapping[str, Share] = {}

    def whose(self, role: str, subject: str, now_ms: int) -> Whose:
        """Returns who should do the work of a role on a subject."""
        share = self.roles.get(role)
        if share is None or now_ms >= self.until_ms:
            return Whose.UNSURE
        name = granule_of(role, subject, share.granules)
        if name in share.mine:
            return Whose.MINE
        return Whose.OTHERS if name in share.others else Whose.UNSURE

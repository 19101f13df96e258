"""Who is asked to apply changes of a catalog. Pure.

A server that received a change of a catalog asks the owner of the catalog's granule, where all changes of the catalog share swaps of its HEAD
(``catalog.group_commit``). That is a matter of speed: whoever is unsure applies the change itself (``core.asking``), and the CAS on the HEAD judges both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnstile.fleet.core.decisions import granule_of

CATALOGS: Final = "catalogs"
"""The role of owners that apply changes of catalogs."""


class Address(msgspec.Struct, frozen=True):
    """Where a member can be asked. ``secret``: by which both sides know that they read the same row; of this process only."""

    host: str
    port: int
    secret: str


class Owners(msgspec.Struct, frozen=True):
    """What a member believes of a role's owners until ``until_ms``, by the machine's monotonic clock.

    Attributes:
        granules: how many the role has; 0: nobody knows.
        owners: by granule, those who are well and can be asked.
    """

    until_ms: int = 0
    granules: int = 0
    owners: Mapping[str, Address] = {}

    def of(self, subject: str, now_ms: int) -> Address | None:
        """Returns who is to be asked for a subject; None: nobody, do it here."""
        if now_ms >= self.until_ms or self.granules == 0:
            return None
        return self.owners.get(granule_of(CATALOGS, subject, self.granules))

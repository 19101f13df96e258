"""The roles of background work: the kinds of work that a process of a fleet can do, and the number
of granules of each kind. Pure.

A server works for all roles except the ones that its settings leave to others. A worker
(``turnstile work``) works for the roles that it was started with. Only a member that works for a
role owns granules of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

PUBLISH: Final = "publish"
"""Copies versions into the logs of tables. Its granules are of the keys of tables' HEADs."""

SWEEP: Final = "sweep"
"""Looks at all tables now and then, and removes garbage. One granule."""

EVENTS: Final = "events"
"""Makes events of HEADs that changed. Its granules are of the keys of HEADs."""

MAINTAIN: Final = "maintain"
"""Light work on tables. Its granules divide the names of catalogs, whose events name the work that
is due."""

GRANULES: Final[Mapping[str, int]] = {PUBLISH: 64, SWEEP: 1, EVENTS: 32, MAINTAIN: 32}
"""All roles of background work, with the number of granules of each where no member said so
before."""

ALL: Final = tuple(GRANULES)


def without_members(granules: Mapping[str, int], members: Iterable[Collection[str]]) -> tuple[str, ...]:
    """Returns the roles of background work without a member, in a store that has a fleet.

    Args:
        granules: the roles that the fleet has had, with their granules; empty: there is no fleet.
        members: the roles of each member that stays.
    """
    served = {role for roles in members for role in roles}
    return tuple(role for role in ALL if granules and role not in served)

"""One conditional write that ratifies several commits of a table, with the same result as their own
writes one after the other (I23). Pure.

``share`` applies each proposal's own write (``writes.ratify``) to a row as it was read, and takes
the accepted ones. The shared write brings the row from the state that was read to the state after
them, if the row still has every value on which their acceptance depended. So it is accepted only
where each of them would be, in this order, and a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import cost
from turnstile.delta.core.writes.ratify import (
    active,
    named_change,
    new_identity,
    own_application,
    remembers_clause,
    room,
    same_epoch,
    same_metadata,
    settled_clause,
    ticket_change,
    unreserved_clause,
)
from turnstile.store.core.evaluate import accepts, apply_actions
from turnstile.store.core.writes import Absent, Action, Append, Change, Clause, Drop, Equals, Include, Row, Set, SetSum

GROUP_COMMITS: Final = 48
"""Commits that share a write at most. Each is named in its condition, and DynamoDB takes 4 kB and
300 operators of that."""

GROUP_APPS: Final = 8
"""Streaming applications that they name at most, for the same reason."""


_MEMBERS: Final = ("latest", "last_ict", "pending", "epoch", "metadata", "row_hwm")
"""Members of the row that take their values from the last commit."""


class SharedWrite(msgspec.Struct, frozen=True):
    """A write, and which of the proposals it ratifies, in the order of their versions."""

    change: Change
    members: tuple[int, ...]


def share(row: Row, proposals: Sequence[Proposal], now: int) -> SharedWrite | None:
    """Returns the write that ratifies as many of ``proposals`` as fit together on ``row``; None
    where it would accept none of them.

    A commit that names its version comes first: tickets fit behind it, unless it changes metadata,
    and behind a ticket it would be refused.
    """
    key: str = row["key"]
    after = row
    members = list[int]()
    chosen = list[Proposal]()
    for index in sorted(range(len(proposals)), key=lambda index: proposals[index].version is None):
        proposal = proposals[index]
        if not _has_space(chosen, proposal):
            continue
        change = own_change(key, after, proposal, now)
        if accepts(after, change):
            members.append(index)
            chosen.append(proposal)
            after = apply_actions(after, change.actions)
    if not members:
        return None
    if len(members) == 1:
        return SharedWrite(own_change(key, row, chosen[0], now), tuple(members))
    return SharedWrite(_shared_change(row, after, chosen, now), tuple(members))


def own_change(key: str, row: Row, proposal: Proposal, now: int) -> Change:
    """Returns the write that ratifies one proposal alone, in the form that fits ``row``."""
    if proposal.version is not None:
        return named_change(key, proposal, now)
    return ticket_change(key, proposal, now, clock_behind=row["last_ict"] >= proposal.entry.ict)


def _has_space(chosen: Sequence[Proposal], proposal: Proposal) -> bool:
    """Whether a proposal has space in the condition beside the chosen ones."""
    apps = sum(len(other.apps) for other in chosen) + len(proposal.apps)
    return len(chosen) < GROUP_COMMITS and apps <= GROUP_APPS


def _shared_change(before: Row, after: Row, members: Sequence[Proposal], now: int) -> Change:
    tickets = [proposal for proposal in members if proposal.version is None]
    clauses = [
        Clause("next", "I1", "the version before the first one is the latest", Equals(("latest",), before["latest"])),
        Clause("same timestamp", "I7", "theirs follow the last one", Equals(("last_ict",), before["last_ict"])),
        _same_rows(before),
        same_metadata(before["metadata"]),
        *((same_epoch(min(proposal.base for proposal in tickets)),) if tickets else ()),
        *(own_application(app, proposal.base) for proposal in tickets for app in proposal.apps),
        *(unreserved_clause(proposal) for proposal in members if proposal.version is not None),
        active(),
        *(new_identity(proposal.entry.txn) for proposal in members),
        remembers_clause(min(proposal.oldest_needed for proposal in members)),
        room(_free_at(members)),
        settled_clause(),
    ]
    actions: list[Action] = [
        *(Set((name,), after[name]) for name in _MEMBERS if after.get(name) not in (None, before.get(name))),
        *(Drop((name,)) for name in _MEMBERS if name not in after),
        Append(("tail",), tuple(after["tail"][len(before["tail"]) :])),
        Include(("ids",), frozenset(proposal.entry.txn for proposal in members)),
        SetSum(("bytes",), ("bytes",), after["bytes"] - before["bytes"]),
        Set(("changed_at",), now),
    ]
    apps = {
        app: version for app, version in after.get("apps", {}).items() if before.get("apps", {}).get(app) != version
    }
    actions += [Set(("apps", app), version) for app, version in apps.items()]
    return Change(before["key"], tuple(clauses), tuple(actions))


def _same_rows(before: Row) -> Clause:
    mark = before.get("row_hwm")
    test = Absent(("row_hwm",)) if mark is None else Equals(("row_hwm",), mark)
    return Clause("same rows", "I2", "row ids follow the mark that was read", test)


def _free_at(members: Sequence[Proposal]) -> int:
    """The limit of the tail's bytes, so that each commit has room behind the commits before it."""
    free_at = members[0].room
    size_bytes = 0
    for proposal in members:
        size_bytes += cost(proposal.entry)
        free_at = min(free_at, proposal.room - size_bytes)
    return free_at

"""The conditional writes that ratify: one UpdateItem each, every clause with its invariant.

``named_change`` extends a table by a version the proposer chose; ``ticket_change`` by whichever is next. Both accept
exactly when ``decide`` says a fresh Ratified (a property test holds them together).
"""

from __future__ import annotations

from turnstile.delta.core.head import ACTIVE, ROWS_KEPT, ROWS_OFF, ROWS_UNREAD, cost
from turnstile.delta.core.proposal import Proposal
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.core.writes import (
    Absent,
    Action,
    Append,
    AtLeast,
    AtMost,
    Below,
    Change,
    Clause,
    Drop,
    Either,
    Equals,
    Include,
    Lacks,
    Set,
    SetSum,
)


def _common(proposal: Proposal) -> tuple[Clause, ...]:
    entry = proposal.entry
    read = Clause("same metadata", "I2", "metadata is what the proposer read", Equals(("metadata",), proposal.asserts))
    return (
        *((read,) if proposal.asserts is not None else ()),
        Clause("active", "I10", "the table takes commits", Equals(("state",), ACTIVE)),
        Clause("new identity", "I3", "this transaction is not in the tail", Lacks(("ids",), entry.txn)),
        Clause(
            "remembered",
            "I3",
            "no identity was evicted that could be this one",
            AtMost(("tail_from",), proposal.oldest_needed),
        ),
        Clause("room", "I11", "the row stays within its budget", AtMost(("bytes",), proposal.room - cost(entry))),
    )


def named_change(key: str, proposal: Proposal, now: int) -> Change:
    """Ratify ``proposal.version``.

    Args:
        key: refs key of the HEAD.
        now: server clock (ms), kept for operators; no clause depends on it.
    """
    version, entry = proposal.version, proposal.entry
    if version is None:
        raise ValueError("a ticket has no version")
    clauses = [
        Clause("next", "I1", "the version before this one is the latest", Equals(("latest",), version - 1)),
        Clause("later", "I7", "the in-commit timestamp increases", Below(("last_ict",), entry.ict)),
        *_common(proposal),
    ]
    actions: list[Action] = [
        Set(("latest",), version),
        Set(("last_ict",), entry.ict),
        Append(("tail",), (entry.pack(),)),
        Include(("ids",), frozenset({entry.txn})),
        SetSum(("bytes",), ("bytes",), cost(entry)),
        Set(("pending",), version),
        Set(("changed_at",), now),
    ]
    if proposal.metadata is not None:
        actions.append(Set(("metadata",), proposal.metadata))
    if entry.changed in ("metadata", "unread"):
        actions.append(Set(("epoch",), version))
    if entry.hwm == ROWS_OFF:
        actions.append(Drop(("row_hwm",)))
    elif entry.hwm != ROWS_KEPT:
        clauses.append(
            Clause(
                "fresh rows",
                "I2",
                "no row id is assigned twice",
                Either((Absent(("row_hwm",)), AtMost(("row_hwm",), entry.hwm), AtLeast(("row_hwm",), ROWS_UNREAD))),
            )
        )
        actions.append(Set(("row_hwm",), entry.hwm))
    actions.extend(Set(("apps", app), version) for app in proposal.apps)
    return Change(key, tuple(clauses), tuple(actions))


def ticket_change(key: str, proposal: Proposal, now: int, *, clock_behind: bool) -> Change:
    """Ratify the next version, whichever it is (design 2.2).

    The in-commit timestamp is max(own, predecessor + 1). An update expression has no max, so there are two forms:
    the entry's own timestamp is later than the last (``clock_behind=False``), or it is not and the last plus one
    counts. ``last_ict`` never falls, so a refusal of the first form makes the second one certain to fit.
    """
    entry = proposal.entry
    clauses = [
        Clause("based", "I6", "the proposer's base exists", AtLeast(("latest",), proposal.base)),
        Clause("same epoch", "I2", "metadata is what the proposer read", AtMost(("epoch",), proposal.base)),
        *(
            Clause(
                "own application",
                "I3",
                "no later commit carries this streaming application's txn",
                Either((Absent(("apps", app)), AtMost(("apps", app), proposal.base))),
            )
            for app in proposal.apps
        ),
        *_common(proposal),
    ]
    actions: list[Action] = [
        SetSum(("latest",), ("latest",), 1),
        SetSum(("pending",), ("latest",), 1),
        Append(("tail",), (entry.pack(),)),
        Include(("ids",), frozenset({entry.txn})),
        SetSum(("bytes",), ("bytes",), cost(entry)),
        Set(("changed_at",), now),
        *(SetSum(("apps", app), ("latest",), 1) for app in proposal.apps),
    ]
    if clock_behind:
        clauses.append(Clause("clock behind", "I7", "own timestamp is not later", AtLeast(("last_ict",), entry.ict)))
        actions.append(SetSum(("last_ict",), ("last_ict",), 1))
    else:
        clauses.append(Clause("later", "I7", "own timestamp is later than the last", Below(("last_ict",), entry.ict)))
        actions.append(Set(("last_ict",), entry.ict))
    if entry.rows >= 0:
        clauses.append(
            Clause("row tracking on", "I2", "row ids can follow", AtMost(("row_hwm",), MAX_ROW_ID - entry.rows))
        )
        actions.append(SetSum(("row_hwm",), ("row_hwm",), entry.rows))
    else:
        clauses.append(Clause("row tracking off", "I2", "no row ids are assigned", Absent(("row_hwm",))))
    return Change(key, tuple(clauses), tuple(actions))

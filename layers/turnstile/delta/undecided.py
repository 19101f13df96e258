"""Undecided entries of large groups, for readers and writers of a table (``core.undecided``, ADR
24).

    readers    ``as_readers_see``: the HEAD by the present state of the group's row. One read more if a HEAD
               has an entry, no write
    writers    ``settle``: the entry is folded or removed, the group aborted if it is past its
               deadline; while it is open the
               writer waits, for about a second in all, and then has the HEAD with the entry: a
                   refusal that passes

The group's row is always read after the HEAD: an entry that was there is of a group that was begun
by then, and a group that is open at the second moment was not committed at the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.undecided import (
    ABORTED,
    GroupRow,
    Undecided,
    Verdict,
    as_folded,
    decision_writes,
    fold,
    remove,
    undecided_of,
    verdict,
    without_entry,
)
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, World, in_batches
from turnstile.store.retry import Pause

K = TypeVar("K")

_WAITS_S: Final = (0.05, 0.1, 0.2, 0.3, 0.5)


def group_rows(world: World, refs: set[str]) -> dict[str, GroupRow]:
    """The rows of these groups, by their names; missing ones are left out. One request per hundred,
    a plain read of one."""
    rows: list[Row | None] = []
    for batch in in_batches(sorted(refs), BATCH_GET_MAX):
        keys = [world.space.group(ref) for ref in batch]
        rows += [world.refs.read(keys[0])] if len(keys) == 1 else world.refs.read_many(keys).values()
    start = len(world.space.group(""))
    return {row["key"][start:]: GroupRow.from_row(row) for row in rows if row is not None}


def verdicts(world: World, heads: Mapping[K, TableHead]) -> dict[K, Verdict]:
    """The states of the groups of undecided entries in ``heads``, by the heads that have one. No
    request if none has."""
    entries = {key: entry for key, head in heads.items() if (entry := undecided_of(head)) is not None}
    if not entries:
        return {}
    rows = group_rows(world, {entry.ref for entry in entries.values()})
    now = world.clock.now_ms()
    return {key: verdict(entry, rows.get(entry.ref), now) for key, entry in entries.items()}


def as_readers_see(world: World, heads: Mapping[K, TableHead]) -> dict[K, TableHead]:
    """Returns ``heads``, which were just read, as a reader sees them: with the commits of groups
    that are committed, without any other. They have no undecided entry then. Writes nothing."""
    shown = dict(heads)
    for key, which in verdicts(world, heads).items():
        shown[key] = as_folded(heads[key]) if which == "committed" else without_entry(heads[key])
    return shown


def seen_one(world: World, head: TableHead) -> TableHead:
    """``as_readers_see``, of one HEAD."""
    return as_readers_see(world, {0: head})[0] if head.undecided else head


def settle(world: World, heads: Mapping[K, TableHead], pause: Pause | None = None) -> dict[K, TableHead]:
    """Returns ``heads``, which were just read or returned, after their undecided entries were
    folded or removed. An entry of an open group is waited for, all of them together; with the entry
    still in it, a HEAD refuses for now. Without ``pause`` nothing is waited for. No request for
    HEADs without an entry.
    """
    result = dict(heads)
    for wait_s in (*_WAITS_S, None) if pause is not None else (None,):
        waiting = False
        for key, which in verdicts(world, result).items():
            head = result[key]
            final = _abort(world, head) if which == "late" else which
            if final == "open":
                waiting = True
                continue
            result[key] = _resolve(world, head, is_committed=final == "committed")
            waiting = waiting or bool(result[key].undecided)
        if not waiting:
            break
        if wait_s is not None and pause is not None:
            pause(wait_s)
    return result


def settle_one(world: World, head: TableHead, pause: Pause | None = None) -> TableHead:
    """``settle``, of one HEAD."""
    return settle(world, {0: head}, pause)[0] if head.undecided else head


def is_settled(world: World, row: Row | None) -> bool:
    """Whether the row of a HEAD, returned to a write that it refused, had an undecided entry and
    has none any more: then the write may be tried again."""
    if row is None or not row.get("undecided"):
        return False
    return not settle_one(world, TableHead.from_row(row)).undecided


def _resolve(world: World, head: TableHead, *, is_committed: bool) -> TableHead:
    """The HEAD after its entry is folded or removed; after a refusal the present one, since another
    process did so."""
    now = world.clock.now_ms()
    answer = world.refs.write(fold(head.key, head.undecided, now) if is_committed else remove(head.key, head.undecided))
    return TableHead.from_row(answer.row) if answer.row is not None else without_entry(head)


def _abort(world: World, head: TableHead) -> Verdict:
    """Aborts the group of ``head``'s entry; returns its present state, since others may have been
    faster."""
    entry = undecided_of(head)
    assert isinstance(entry, Undecided)
    now = world.clock.now_ms()
    answer = world.refs.write(decision_writes(world.space.group(entry.ref), entry.token, ABORTED, now))
    row = GroupRow.from_row(answer.row) if answer.row is not None else None
    return verdict(entry, row, row.deadline if row is not None else now)

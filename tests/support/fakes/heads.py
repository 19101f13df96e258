"""Heads as the machinery makes them, and proposals to throw at them: hypothesis strategies."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from turnstile.delta.core.decide import Proposal, Ratified, decide
from turnstile.delta.core.head import (
    ROWS_KEPT,
    ROWS_OFF,
    ROWS_UNREAD,
    Entry,
    TableHead,
    cost,
    mark_after,
    new_head_row,
    newest,
    tail_by_version,
)
from turnstile.delta.core.writes.ratify import named_change, raise_floor, ticket_change
from turnstile.store.core.evaluate import apply_actions, holds
from turnstile.store.core.writes import Change, Row

START_ICT = 1_000
STATES = ("active", "leaving", "dropped", "stuck", "recovering")
APPS = ("a" * 16, "b" * 16)


def empty_row(version: int = 0, row_hwm: int | None = None) -> Row:
    """A table whose versions up to ``version`` are published."""
    return new_head_row(
        key="test/table/t",
        table_id="t",
        catalog="main",
        name="main.default.t",
        location="file:///lake/t",
        metadata="m0",
        version=version,
        ict=START_ICT,
        row_hwm=row_hwm,
        created=1,
        managed=True,
    )


def entry(txn: str = "x", ict: int = START_ICT + 10, **more: Any) -> Entry:
    return Entry(txn=txn, ict=ict, size=more.pop("size", 100), changed=more.pop("changed", "data"), **more)


def named(version: int, txn: str = "x", ict: int = START_ICT + 10, *, base: int | None = None, **more: Any) -> Proposal:
    """A proposal of one version; ``more`` goes to the entry, but for the proposal's own members."""
    own = {key: more.pop(key) for key in ("apps", "asserts", "metadata", "recalled", "holder") if key in more}
    body = entry(txn, ict, apps=len(own.get("apps", ())), **more)
    return Proposal(version=version, base=version - 1 if base is None else base, entry=body, **own)


def ticket(base: int, txn: str = "x", ict: int = START_ICT + 10, *, rows: int = -1, **more: Any) -> Proposal:
    """A proposal of the next version."""
    own = {key: more.pop(key) for key in ("apps", "asserts", "recalled") if key in more}
    apps = len(own.get("apps", ()))
    body = entry(txn, ict, changed="append", inline=True, ticket=True, rows=rows, apps=apps, **more)
    return Proposal(version=None, base=base, entry=body, **own)


def forms(row: Row, proposal: Proposal) -> list[Change]:
    """The conditional writes by which ``proposal`` may be ratified."""
    if proposal.version is not None:
        return [named_change(row["key"], proposal, 7)]
    return [ticket_change(row["key"], proposal, 7, clock_behind=behind) for behind in (False, True)]


def accepts(row: Row, change: Change) -> bool:
    return all(holds(row, clause.test) for clause in change.clauses)


def ratified(row: Row, proposal: Proposal) -> Row | None:
    """The row after ratification, or None when every form is refused."""
    for change in forms(row, proposal):
        if accepts(row, change):
            return apply_actions(row, change.actions)
    return None


def must(row: Row, proposal: Proposal) -> Row:
    after = ratified(row, proposal)
    assert after is not None, decide(TableHead.from_row(row), proposal)
    return after


def floored(row: Row, published: int | None = None, *, idle: bool = False) -> Row:
    """The row after the floor rose to ``published`` (default: latest)."""
    head = TableHead.from_row(row)
    change = raise_floor(head, head.latest if published is None else published, idle=idle)
    return apply_actions(row, change.actions) if accepts(row, change) else row


def recount(head: TableHead) -> None:
    """Members that the row has twice agree (I1, I3, I7)."""
    places = tail_by_version(head)
    mark = head.tail_hwm
    for one in head.tail:
        mark = mark_after(mark, one)
    assert head.bytes == sum(cost(one) for one in head.tail)
    assert head.ids == {one.txn for one in head.tail}
    assert [place.version for place in places] == list(range(head.tail_from, head.latest + 1))
    stamps = [head.tail_ict, *(place.ict for place in places)]
    assert all(earlier < later for earlier, later in itertools.pairwise(stamps))
    assert head.last_ict == stamps[-1]
    assert newest(head) == (places[-1] if places else None)
    assert head.row_hwm == mark
    assert head.tail_from - 1 <= head.floor <= head.latest
    assert head.epoch <= head.latest
    assert head.pending is not None or head.floor == head.latest


_txns = st.sampled_from([f"t{number}" for number in range(12)] + ["\U0001f600" * 3])
_icts = st.integers(START_ICT - 5, START_ICT + 60)
_apps = st.sampled_from([(), (), (), APPS[:1], APPS[1:], APPS])
_marks = st.sampled_from([ROWS_KEPT, ROWS_KEPT, ROWS_KEPT, -1, 0, 3, 9, ROWS_OFF, ROWS_UNREAD])
_data = st.sampled_from([b"", b"", b"small", b"d" * 4_000, b"d" * 4_000, b"e" * 12_000])


@st.composite
def proposals(draw: st.DrawFn, latest: int = 8) -> Proposal:
    """Any proposal, sensible or not."""
    version = draw(st.sampled_from([None, None, *range(1, latest + 3), latest + 1, latest + 1, latest + 1]))
    base = draw(st.integers(0, latest + 1))
    if version is not None and base >= version:
        base = version - 1
    recalled = draw(st.sampled_from([None, None, None, *range(1, latest + 2)]))
    if version is None:
        rows = draw(st.sampled_from([-1, -1, 0, 4]))
        asserts = draw(st.sampled_from([None, None, None, "m0", "m1"]))
        more = {"apps": draw(_apps), "data": draw(_data), "asserts": asserts, "recalled": recalled}
        return ticket(base, draw(_txns), draw(_icts), rows=rows, **more)
    return named(
        version,
        draw(_txns),
        draw(_icts),
        base=base,
        apps=draw(_apps),
        recalled=recalled,
        data=draw(_data),
        hwm=draw(_marks),
        changed=draw(st.sampled_from(["data", "append", "metadata", "unread"])),
        asserts=draw(st.sampled_from([None, None, "m0", "m1"])),
        metadata=draw(st.sampled_from([None, None, "m0", "m1"])),
        holder=draw(st.sampled_from(["", "", "h0", "h1"])),
        ratified_ms=draw(st.sampled_from([0, 3, 4])),
    )


@st.composite
def rows(draw: st.DrawFn, states: tuple[str, ...] = STATES) -> Row:
    """A row that random accepted proposals and floor changes led to."""
    row = empty_row(draw(st.sampled_from([0, 0, 5])), draw(st.sampled_from([None, None, -1, 2])))
    for _ in range(draw(st.integers(0, 12))):
        head = TableHead.from_row(row)
        if draw(st.integers(0, 3)) == 0:
            row = floored(row, draw(st.integers(head.floor, head.latest)), idle=draw(st.booleans()))
            continue
        proposal = draw(proposals(head.latest))
        if proposal.version is not None and draw(st.integers(0, 3)):
            proposal = named_again(proposal, head)
        if isinstance(decide(head, proposal), Ratified):
            row = ratified(row, proposal) or row
    row["state"] = draw(st.sampled_from(("active", *states)))
    if draw(st.booleans()):
        row |= {"reserved_by": draw(st.sampled_from(["h0", "h1"])), "reserved_until": draw(st.sampled_from([3, 4]))}
    return row


def named_again(proposal: Proposal, head: TableHead) -> Proposal:
    """The proposal after a client rebased it on ``head``."""
    fitting = entry(
        proposal.entry.txn,
        head.last_ict + 1 + proposal.entry.ict % 3,
        data=proposal.entry.data,
        changed=proposal.entry.changed,
        hwm=proposal.entry.hwm,
        apps=len(proposal.apps),
    )
    return Proposal(
        version=head.latest + 1, base=head.latest, entry=fitting, apps=proposal.apps, metadata=proposal.metadata
    )

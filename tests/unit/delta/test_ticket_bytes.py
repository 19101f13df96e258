"""The final bytes of a ticket follow from its position alone, in every process that computes them
(I2)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import delta
from tests.support.fakes.heads import START_ICT, empty_row, floored, must, named, ticket
from turnstile.delta.core.content import read_content
from turnstile.delta.core.head import PlacedCommit, TableHead, final_bytes, tail_by_version

MARK = {
    "domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":-1}', "removed": False}
}
ODD = b'{"add": {"path":"\\u0061 b","size" : 1.50, "dataChange":true,"stats":"{\\"numRecords\\":2}"}}\n'


def place(raw: bytes, own: int = 5, *, row_hwm: int | None = None, rows: int = -1) -> PlacedCommit:
    row = must(empty_row(row_hwm=row_hwm), named(1, "first", START_ICT + 1))
    head = TableHead.from_row(must(row, ticket(0, "t", own, rows=rows)))
    return tail_by_version(head)[-1]


def parsed(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines()]


def test_i2_a_named_commit_keeps_its_bytes() -> None:
    row = must(empty_row(), named(1))
    raw = delta.append("x", START_ICT + 10) + b"\n\n"
    assert final_bytes(tail_by_version(TableHead.from_row(row))[0], raw) is raw


def test_i7_a_ticket_carries_the_timestamp_of_its_place() -> None:
    final = final_bytes(place(b""), delta.append("t", 5))
    assert parsed(final)[0]["commitInfo"]["inCommitTimestamp"] == START_ICT + 2
    assert read_content(final).ict == START_ICT + 2 and read_content(final).blind


def test_i2_row_ids_follow_from_the_place_and_the_mark_is_written_last() -> None:
    raw = delta.lines(delta.info("t", 5), MARK, delta.add("f", 3), delta.add("g", 0), delta.add("h", 2))
    actions = parsed(final_bytes(place(raw, row_hwm=9, rows=5), raw))
    ids = [(action["add"]["baseRowId"], action["add"]["defaultRowCommitVersion"]) for action in actions[1:4]]
    assert ids == [(10, 2), (13, 2), (13, 2)]
    assert json.loads(actions[4]["domainMetadata"]["configuration"]) == {"rowIdHighWaterMark": 14}
    assert actions[4]["domainMetadata"]["removed"] is False and len(actions) == 5
    assert actions[4]["domainMetadata"]["domain"] == "delta.rowTracking"


def test_i2_members_that_do_not_follow_from_the_place_keep_their_exact_bytes() -> None:
    raw = delta.lines(delta.info("t", 5)) + ODD
    assert b'"path":"\\u0061 b","size":1.50' in final_bytes(place(raw), raw).replace(b" : ", b":")
    assert b"baseRowId" not in final_bytes(place(raw), raw)
    tracked = final_bytes(place(raw, row_hwm=0, rows=2), raw)
    assert b'"\\u0061 b"' in tracked and b"1.50" in tracked


@given(st.lists(st.integers(0, 9), max_size=4), st.integers(1, START_ICT + 99), st.sampled_from([None, -1, 7]))
def test_i2_every_process_computes_the_same_bytes_before_and_after_publication(
    records: list[int], own: int, row_hwm: int | None
) -> None:
    raw = delta.lines(delta.info("t", own), *[delta.add(f"f{n}", count) for n, count in enumerate(records)])
    row = must(empty_row(row_hwm=row_hwm), named(1, "first", START_ICT + 1))
    row = must(row, ticket(0, "t", own, rows=-1 if row_hwm is None else sum(records)))
    before = tail_by_version(TableHead.from_row(row))[-1]
    final = final_bytes(before, raw)
    for more in range(3):
        row = must(row, ticket(2, f"m{more}", rows=-1 if row_hwm is None else 1))
    for version in (1, 2, 4):
        row = floored(row, version)
        after = next(place for place in tail_by_version(TableHead.from_row(row)) if place.version == 2)
        assert final_bytes(after, raw) == final
    assert read_content(final).ict == before.ict and read_content(final).rows == sum(records)
    assert read_content(final).hwm == (None if row_hwm is None else row_hwm + sum(records))

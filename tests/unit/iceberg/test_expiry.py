"""Snapshots expire by the rules of Iceberg's specification and of Java's ``RemoveSnapshots``."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.iceberg.core import updates
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.expiry import (
    EXPIRE,
    GC_ENABLED,
    MAX_REF_AGE,
    MAX_SNAPSHOT_AGE,
    MIN_SNAPSHOTS,
    REMOVE,
    SPARE_SCHEMAS,
    Expired,
    Retention,
    expired_parts,
    expires,
    may_be_collected,
    removes,
)
from turnstile.iceberg.core.metadata import TableMetadata, check_readable, encode
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.snapshots import Snapshot, SnapshotRef
from turnstile.iceberg.core.table_updates import apply_updates
from turnstile.store.core.errors import InvalidRequest

NOW = 1_800_000_000_000
DAY = 24 * 3_600_000


def table(ages: dict[int, tuple[int, int | None]], refs: dict[str, SnapshotRef], **properties: str) -> TableMetadata:
    """A table of snapshots, each with its age (ms) and its parent."""
    schema = msgspec.convert({"type": "struct", "schema-id": 0, "fields": []}, Schema)
    empty = new_table(uuid="6c1ee2c4-1a4c-4dc4-8b0a-6bd4c1ab3d05", location="s3://lake/t", schema=schema, spec=None,
                      order=None, properties={}, now_ms=0)  # fmt: skip
    snapshots = tuple(
        Snapshot(id, NOW - age, parent, id, f"s3://lake/t/{id}.avro") for id, (age, parent) in ages.items()
    )
    main = refs.get("main")
    return msgspec.structs.replace(
        empty,
        snapshots=snapshots,
        refs=refs,
        current_snapshot_id=main.snapshot_id if main else None,
        last_sequence_number=max(ages, default=0),
        properties={name.replace("__", "."): value for name, value in properties.items()},
    )


def branch(id: int, **more: int) -> SnapshotRef:
    return SnapshotRef(id, "branch", **more)


def tag(id: int, **more: int) -> SnapshotRef:
    return SnapshotRef(id, "tag", **more)


LINE = {1: (9 * DAY, None), 2: (7 * DAY, 1), 3: (5 * DAY, 2), 4: (DAY, 3)}


def with_properties(metadata: TableMetadata, **properties: str) -> TableMetadata:
    names = {"age": MAX_SNAPSHOT_AGE, "least": MIN_SNAPSHOTS, "ref_age": MAX_REF_AGE}
    return msgspec.structs.replace(metadata, properties={names[name]: value for name, value in properties.items()})


@pytest.mark.parametrize(
    ("properties", "gone"),
    [
        ({}, (1, 2)),
        ({"age": str(5 * DAY - 1)}, (1, 2, 3)),
        ({"age": "0"}, (1, 2, 3)),
        ({"age": "0", "least": "3"}, (1,)),
        ({"least": "4"}, ()),
        ({"least": "9"}, ()),
        ({"age": str(8 * DAY)}, (1,)),
        ({"age": str(9 * DAY)}, ()),
        ({"ref_age": "0"}, (1, 2)),
    ],
)
def test_of_main_the_newest_and_the_young_stay(properties: dict[str, str], gone: tuple[int, ...]) -> None:
    metadata = with_properties(table(LINE, {"main": branch(4)}), **properties)
    assert expired_parts(metadata, NOW) == Expired((), gone)


@pytest.mark.parametrize(
    ("more", "gone"),
    [
        ({"min_snapshots_to_keep": 3}, (1,)),
        ({"max_snapshot_age_ms": 8 * DAY}, (1,)),
        ({"max_snapshot_age_ms": 1}, (1, 2, 3)),
        ({"max_snapshot_age_ms": 1, "min_snapshots_to_keep": 2}, (1, 2)),
        ({"max_ref_age_ms": 1}, (1, 2)),
    ],
)
def test_a_branch_says_itself_what_stays(more: dict[str, int], gone: tuple[int, ...]) -> None:
    assert expired_parts(table(LINE, {"main": branch(4, **more)}), NOW) == Expired((), gone)


def test_what_comes_after_the_first_that_goes_does_too_however_young() -> None:
    """Writers' clocks differ; a history has no holes."""
    line = {1: (DAY, None), 2: (7 * DAY, 1), 3: (DAY, 2)}
    assert expired_parts(table(line, {"main": branch(3)}), NOW).snapshot_ids == (1, 2)


@pytest.mark.parametrize("ref", [tag(1), branch(1), branch(1, max_snapshot_age_ms=1)])
def test_a_tag_or_branch_keeps_its_snapshot_and_goes_by_its_own_age(ref: SnapshotRef) -> None:
    both = {"main": branch(4), "old": ref}
    assert expired_parts(table(LINE, both), NOW) == Expired((), (2,))
    for age, gone in ((9 * DAY, Expired((), (2,))), (9 * DAY - 1, Expired(("old",), (1, 2)))):
        aged = {"main": branch(4), "old": msgspec.structs.replace(ref, max_ref_age_ms=age)}
        assert expired_parts(table(LINE, aged), NOW) == gone
        assert expired_parts(with_properties(table(LINE, both), ref_age=str(age)), NOW) == gone


def test_the_age_of_a_reference_goes_before_that_of_the_table() -> None:
    refs = {"main": branch(4), "old": tag(1, max_ref_age_ms=10 * DAY)}
    assert expired_parts(with_properties(table(LINE, refs), ref_age="0"), NOW).refs == ()


def test_ancestors_of_a_tag_are_in_no_branch_and_go_by_age() -> None:
    line = {1: (9 * DAY, None), 2: (4 * DAY, 1), 3: (3 * DAY, 2), 4: (DAY, 1)}
    assert expired_parts(table(line, {"main": branch(4), "t": tag(3)}), NOW).snapshot_ids == (1,)


def test_snapshots_in_no_branch_stay_while_they_are_young() -> None:
    line = {1: (9 * DAY, None), 2: (5 * DAY, 1), 3: (5 * DAY + 1, 1), 4: (DAY, 1)}
    assert expired_parts(table(line, {"main": branch(4)}), NOW).snapshot_ids == (1, 3)


def test_a_table_without_a_current_snapshot_or_with_a_circle_of_parents() -> None:
    assert expired_parts(table({}, {}), NOW) == Expired()
    circle = {1: (9 * DAY, 2), 2: (8 * DAY, 1)}
    assert expired_parts(table(circle, {"main": branch(2, min_snapshots_to_keep=5)}), NOW) == Expired()


@pytest.mark.parametrize("name", [MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, MAX_REF_AGE])
@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 19, "1" * 20, "0" * 19 + "1", "1" * 5_000, "٣"])
def test_a_property_that_is_no_number_expires_nothing(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match="is no number"):
        Retention.of({name: value})
    assert Retention.of({name: str(2**63 - 1)}) != Retention() or name == MAX_REF_AGE


def test_at_least_one_snapshot_is_kept() -> None:
    with pytest.raises(InvalidRequest, match="from 1 on"):
        Retention.of({MIN_SNAPSHOTS: "0"})
    assert Retention.of({MIN_SNAPSHOTS: "1", MAX_SNAPSHOT_AGE: "0", MAX_REF_AGE: "0"}) == Retention(0, 1, 0)


def test_only_tables_that_ask_for_it_and_allow_it() -> None:
    for asks, name, other in ((expires, EXPIRE, REMOVE), (removes, REMOVE, EXPIRE)):
        assert asks({name: "true"}) and asks({name: "TRUE", GC_ENABLED: "True"})
        assert not asks({}) and not asks({name: "yes"}) and not asks({other: "true"})
        assert not asks({name: "true", GC_ENABLED: "false"}) and not asks({name: "true", GC_ENABLED: "0"})


_AGE = st.integers(0, 12 * DAY)


@st.composite
def tables(draw: Any) -> TableMetadata:
    count = draw(st.integers(1, 9))
    ages = {
        id: (draw(_AGE), draw(st.none() | st.integers(1, id - 1)) if id > 1 else None) for id in range(1, count + 1)
    }
    one = st.builds(
        SnapshotRef,
        st.integers(1, count),
        st.just("branch"),
        st.none() | st.integers(1, 12 * DAY),
        st.none() | st.integers(1, 12 * DAY),
        st.none() | st.integers(1, 4),
    ) | st.builds(SnapshotRef, st.integers(1, count), st.just("tag"), st.none() | st.integers(1, 12 * DAY))
    refs = {name: draw(one) for name in draw(st.sets(st.sampled_from("abc")))}
    refs["main"] = SnapshotRef(draw(st.integers(1, count)), "branch", None, draw(st.none() | _AGE.filter(bool)))
    metadata = table(ages, refs)
    return with_properties(metadata, age=str(draw(_AGE)), least=str(draw(st.integers(1, 4))))


@settings(max_examples=examples(300))
@given(tables())
def test_what_is_left_is_readable_and_expires_no_further(metadata: TableMetadata) -> None:
    gone = expired_parts(metadata, NOW)
    after = apply_updates(metadata, gone.updates, NOW)
    check_readable(after)
    assert after.refs == {name: ref for name, ref in metadata.refs.items() if name not in gone.refs}
    assert after.current_snapshot_id == metadata.current_snapshot_id
    assert "main" not in gone.refs
    assert {one.snapshot_id for one in after.snapshots} == {one.snapshot_id for one in metadata.snapshots} - {
        *gone.snapshot_ids
    }
    assert expired_parts(after, NOW).refs == ()


def test_files_may_be_collected_from_half_of_the_time_on_that_gc_leaves_them() -> None:
    assert [may_be_collected(age_ms, 10) for age_ms in (0, 5, 6, 11)] == [False, False, True, True]


# -- schemas ----------------------------------------------------------------------------------------------------------


def with_schemas(
    ages: dict[int, tuple[int, int | None]], written_with: dict[int, int | None], count: int
) -> TableMetadata:
    """A table that had ``count`` schemas, the last of which is the current one; snapshots with the
    schema that each was written with."""
    made = table(ages, {"main": branch(max(ages))})
    schemas = tuple(msgspec.structs.replace(made.schemas[0], schema_id=id) for id in range(count))
    snapshots = tuple(msgspec.structs.replace(one, schema_id=written_with[one.snapshot_id]) for one in made.snapshots)
    return msgspec.structs.replace(made, schemas=schemas, current_schema_id=count - 1, snapshots=snapshots)


def test_schemas_go_that_no_snapshot_needs_but_the_newest() -> None:
    made = with_schemas({1: (9 * DAY, None), 2: (0, 1)}, {1: 3, 2: 5}, 40)
    gone = expired_parts(made, NOW)
    assert gone.snapshot_ids == (1,)
    assert gone.schema_ids == tuple(id for id in range(39 - SPARE_SCHEMAS) if id != 5), "3 goes with its snapshot"
    after = apply_updates(made, gone.updates, NOW)
    assert {one.schema_id for one in after.schemas} == {5, *range(39 - SPARE_SCHEMAS, 40)}
    check_readable(after)
    assert expired_parts(after, NOW) == Expired(), "nothing more goes the next time"


@pytest.mark.parametrize("count", [1, 2, SPARE_SCHEMAS + 1])
def test_a_table_with_few_schemas_keeps_them(count: int) -> None:
    assert expired_parts(with_schemas({1: (0, None)}, {1: 0}, count), NOW) == Expired()


def test_no_schema_goes_while_a_snapshot_does_not_say_its_own() -> None:
    assert expired_parts(with_schemas({1: (0, None)}, {1: None}, 40), NOW) == Expired()


def test_columns_that_were_added_one_by_one_are_no_burden_after_an_expiry() -> None:
    made = table({1: (0, None)}, {"main": branch(1)})
    made = msgspec.structs.replace(made, snapshots=(msgspec.structs.replace(made.snapshots[0], schema_id=0),))
    fields: list[dict[str, Any]] = []
    for id in range(1, 101):
        fields.append({"id": id, "name": f"column_{id}", "type": "string", "required": False})
        schema = msgspec.convert({"type": "struct", "fields": fields}, Schema)
        made = apply_updates(made, [updates.AddSchema(schema), updates.SetCurrentSchema(-1)], NOW)
    before = len(encode(made))
    after = len(encode(apply_updates(made, expired_parts(made, NOW).updates, NOW)))
    assert 4 * after < before

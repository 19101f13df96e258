"""I2: a commit is judged by its table, too: partition columns and their values, features, row ids.
By the metadata that the write asserts, so that no change of the table comes in between."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from turnstile.delta.core.content import TableRules, Uses, check_uses, read_content, rules_of
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.definition import check_definition
from turnstile.delta.core.partition_values import is_value
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import InvalidCommit, StorageFault

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_i",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_v",
}


def partitioned(by: str, **configuration: str) -> dict[str, Any]:
    made = delta.metadata(**configuration)
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "p", "q")]
    made["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    made["metaData"]["partitionColumns"] = [by] if by else []
    return made


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def commit(table: Table, *actions: Any, version: int | None = None, ratifier: Ratifier | None = None) -> Any:
    """A commit of the next version, unless ``version`` says otherwise."""
    at = table.head.latest + 1 if version is None else version
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    content = delta.lines(delta.info(f"t-{at}-{len(table.world.refs.requests)}", stamp), *actions)
    return (ratifier or table.ratifier).commit(CommitRequest(table.id, at, content=content))


@pytest.mark.parametrize(
    ("action", "field"),
    [
        (delta.add("f", partitionValues={"p": "1"}), "add.partitionValues"),
        (
            {"cdc": {"path": "c", "partitionValues": {"p": None}, "size": 1, "dataChange": False}},
            "add.partitionValues",
        ),
        (delta.add("f", deletionVector=VECTOR), "add.deletionVector"),
        ({"remove": {**delta.remove("f")["remove"], "deletionVector": VECTOR}}, "add.deletionVector"),
        (delta.add("f", baseRowId=0, defaultRowCommitVersion=1), "add.baseRowId"),
        ({"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}}, "cdc"),
        ({"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": False}}, "domainMetadata"),
        (delta.metadata(**{"delta.columnMapping.mode": "name"}), "protocol.writerFeatures"),
        (delta.metadata(**TRACKED), "protocol.writerFeatures"),
        (delta.metadata(**{"delta.constraints.c": "id > 0"}), "protocol.writerFeatures"),
    ],
)
@pytest.mark.parametrize("sandbox", ["warm", "cold"])
def test_i2_a_commit_that_does_not_fit_its_table_changes_nothing(
    table: Table, action: dict[str, Any], field: str, sandbox: str
) -> None:
    rows = dict(table.world.refs.rows)
    objs = dict(table.world.objs.rows)
    with pytest.raises(InvalidCommit) as refused:
        commit(table, action, ratifier=Ratifier(table.world) if sandbox == "cold" else None)
    assert refused.value.field == field
    assert (table.world.refs.rows, table.world.objs.rows) == (rows, objs)


def test_i2_a_commit_is_judged_by_the_table_as_it_is_now_whatever_the_sandbox_has_seen(table: Table) -> None:
    other = Ratifier(table.world)
    assert isinstance(commit(table, partitioned("p"), ratifier=other), Ratified)
    with pytest.raises(InvalidCommit):
        commit(table, delta.add("f"))
    assert isinstance(commit(table, delta.add("f", partitionValues={"p": "1"})), Ratified)
    assert isinstance(commit(table, partitioned("q"), ratifier=other), Ratified)
    table.world.refs.requests.clear()
    assert isinstance(commit(table, delta.add("g", partitionValues={"q": "1"})), Ratified)
    ticket = CommitRequest(
        table.id, None, base=table.head.latest, content=delta.append("ticket", table.head.last_ict + 1)
    )
    with pytest.raises(InvalidCommit):
        other.commit(ticket)


@pytest.mark.parametrize("sandbox", ["warm", "cold"])
@pytest.mark.parametrize("ticket", [False, True])
def test_i2_a_table_that_changes_after_a_commit_was_judged_by_it_judges_it_again(
    table: Table, sandbox: str, ticket: bool
) -> None:
    """The commit is for the version after the next one, which is no gap any more when it is
    written: so only the metadata that the write asserts tell it from one that fits."""
    other = Ratifier(table.world)
    ratifier = table.ratifier if sandbox == "warm" else Ratifier(table.world)
    write = table.world.refs.write
    changed = []

    def after_a_change(change: Any) -> Any:
        if not changed:
            changed.append(True)
            assert isinstance(commit(table, partitioned("p"), ratifier=other), Ratified)
        return write(change)

    latest = table.head.latest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.world.refs, "write", after_a_change)
        content = delta.append("mine", table.world.clock.now_ms() + 60_000)
        with pytest.raises(InvalidCommit):
            ratifier.commit(CommitRequest(table.id, None if ticket else latest + 2, latest + 1, content=content))
    assert changed and table.head.latest == latest + 1


def test_i2_files_may_be_removed_that_have_other_partition_columns(table: Table) -> None:
    """Spark writes that when it replaces a table by one with other partition columns."""
    old = {
        "remove": {
            **delta.remove("f")["remove"],
            "partitionValues": {"p": None},
            "size": 1,
            "extendedFileMetadata": True,
        }
    }
    assert isinstance(commit(table, old), Ratified)
    assert isinstance(commit(table, partitioned("q"), delta.add("g", partitionValues={"q": "1"}), old), Ratified)


def test_i2_a_loser_to_a_change_of_the_table_gets_the_conflict_and_not_that_the_commit_does_not_fit(
    table: Table,
) -> None:
    other = Ratifier(table.world)
    commit(table, partitioned("p"), ratifier=other)
    assert isinstance(commit(table, delta.add("f"), version=1), Conflict)
    assert isinstance(commit(table, delta.add("f"), version=9), Refused | Conflict)


def test_i3_a_replay_is_answered_though_the_commit_would_not_fit_any_more(table: Table) -> None:
    request = CommitRequest(table.id, 1, content=delta.append("mine", table.world.clock.now_ms()))
    assert isinstance(table.ratifier.commit(request), Ratified)
    assert isinstance(commit(table, partitioned("p")), Ratified)
    for ratifier in (table.ratifier, Ratifier(table.world)):
        answer = ratifier.commit(request)
        assert isinstance(answer, Ratified) and answer.replayed and answer.version == 1


def test_i2_a_warm_commit_is_one_request_and_one_that_meets_a_changed_table_two(table: Table) -> None:
    other = Ratifier(table.world)
    commit(table, delta.add("a"))
    table.world.refs.requests.clear()
    assert isinstance(commit(table, delta.add("b")), Ratified)
    assert len(table.world.refs.requests) == 1
    commit(table, delta.metadata(owner="me"), ratifier=other)
    table.world.refs.requests.clear()
    assert isinstance(commit(table, delta.add("c")), Ratified)
    assert len(table.world.refs.requests) == 2


def test_i2_adds_of_a_table_with_row_tracking_have_row_ids_unless_they_are_suspended(table: Table) -> None:
    table.supports("rowTracking")
    with pytest.raises(InvalidCommit) as refused:
        commit(table, delta.add("f"))
    assert refused.value.field == "add.baseRowId"
    commit(table, delta.metadata(**{"delta.rowTrackingSuspended": "true"}))
    assert isinstance(commit(table, delta.add("f")), Ratified)


def test_partition_columns_of_a_mapped_table_go_by_their_physical_names() -> None:
    made = partitioned("p", **{"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"})["metaData"]
    schema = json.loads(made["schemaString"])
    for id, field in enumerate(schema["fields"], start=1):
        field["metadata"] = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"}
    made["schemaString"] = json.dumps(schema)
    protocol = delta.protocol("columnMapping")["protocol"]
    check_definition(protocol, made)
    rules = rules_of(protocol, made)
    assert rules.partitions == {"col-2": "string"}
    check_uses(Uses(frozenset([frozenset(["col-2"])])), rules)
    for names in ("p", ""):
        with pytest.raises(InvalidCommit):
            check_uses(Uses(frozenset([frozenset([names] if names else [])])), rules)
    made["configuration"]["delta.columnMapping.mode"] = "none"
    assert rules_of(protocol, made).partitions == {"p": "string"}, "whatever is left of a mapping"


def test_a_ticket_needs_no_row_ids_of_its_own() -> None:
    rules = TableRules({}, frozenset({"rowTracking"}), tracked=True)
    check_uses(Uses(untracked="f"), rules, ticket=True)
    with pytest.raises(InvalidCommit):
        check_uses(Uses(untracked="f"), rules)


def test_i3_metadata_that_cannot_be_read_leaves_it_open_whether_the_commit_was_ratified(table: Table) -> None:
    from turnstile.store.core.errors import OutcomeUnknown
    from turnstile.store.ports import World

    class Away:
        def __getattr__(self, name: str) -> Any:
            raise StorageFault("away")

    plain = table.world
    world = World(plain.refs, Away(), plain.storages, plain.clock, plain.ids, plain.space)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknown):
        commit(table, delta.add("f"), ratifier=Ratifier(world))


# -- partition values: what Spark reads as the column's type is taken, what it cannot read is refused ------------------


@pytest.mark.parametrize(
    ("type", "text"), [(type, text) for type, texts in delta.PARTITION_VALUES.items() for text in texts]
)
def test_i2_what_spark_reads_as_a_value_of_the_type_is_taken(type: str, text: str) -> None:
    assert is_value(type, text)


@pytest.mark.parametrize(
    ("type", "text"), [(type, text) for type, texts in delta.NO_PARTITION_VALUES.items() for text in texts]
)
def test_i2_what_spark_cannot_read_is_refused(type: str, text: str) -> None:
    assert not is_value(type, text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_i2_a_whole_number_is_of_the_types_that_hold_it(number: int) -> None:
    for type, bits in {"byte": 8, "short": 16, "integer": 32, "long": 64}.items():
        assert is_value(type, str(number)) == (-(2 ** (bits - 1)) <= number < 2 ** (bits - 1))


@given(st.floats() | st.floats(width=32))
def test_i2_every_floating_number_is_taken(number: float) -> None:
    assert is_value("double", repr(number))
    assert is_value("float", repr(number))


@given(st.dates(), st.times())
def test_i2_every_day_and_time_is_taken(day: dt.date, time: dt.time) -> None:
    assert is_value("date", day.isoformat())
    assert is_value("timestamp", f"{day.isoformat()} {time.isoformat()}")
    assert is_value("timestamp_ntz", f"{day.isoformat()}T{time.isoformat()}")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_i2_a_decimal_is_taken_if_it_has_room_when_it_is_rounded(number: decimal.Decimal) -> None:
    with decimal.localcontext(prec=200):
        rounded = number.quantize(decimal.Decimal("0.001"), decimal.ROUND_HALF_UP)
    assert is_value("decimal(9,3)", str(number)) == (abs(rounded) < 10**6)


@pytest.mark.parametrize("type", ["interval year to month", "variant", "", None, {"type": "struct", "fields": []}, 5])
def test_types_that_are_not_known_here_are_not_judged(type: Any) -> None:
    assert is_value(type, "anything")


def test_i2_a_commit_is_judged_by_the_values_of_its_new_files_and_null_is_one() -> None:
    rules = TableRules({"d": "date", "s": "string"}, frozenset({"changeDataFeed"}), tracked=False)

    def judge(*values: str | None) -> None:
        files = [delta.add(f"f{n}", partitionValues={"d": value, "s": "x"}) for n, value in enumerate(values)]
        check_uses(read_content(delta.lines(delta.info("t", 1_000), *files)).uses, rules)

    judge("2026-11-23", None, "", "2026-11-23")
    with pytest.raises(InvalidCommit, match="the partition value 'not a date' of 'd' is no date") as refused:
        judge("2026-11-23", "not a date")
    assert refused.value.field == "add.partitionValues"
    cdc = {"cdc": {"path": "c", "partitionValues": {"d": "soon", "s": ""}, "size": 1, "dataChange": False}}
    with pytest.raises(InvalidCommit, match="'soon' of 'd'"):
        check_uses(read_content(delta.lines(delta.info("t", 1_000), cdc)).uses, rules)
    removed = {"remove": {"path": "r", "deletionTimestamp": 1, "dataChange": True, "partitionValues": {"d": "soon"}}}
    check_uses(read_content(delta.lines(delta.info("t", 1_000), removed)).uses, rules)

"""Texts of expectations, rows that a predicate is evaluated on, and files that need no look."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.delta_table import Table, inline_vector
from tests.support.examples import examples
from tests.support.fakes.checked_table import Lake
from tests.support.fakes.rows import column
from tests.support.fakes.world import fake_world
from turnstile.delta.core.actions import Add
from turnstile.delta.core.content import Uses
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.prepare import NewRows
from turnstile.expectations import at_commit, row_check
from turnstile.expectations.at_commit import CommitCheck
from turnstile.expectations.core.by_statistics import is_broken
from turnstile.expectations.core.conditions import (
    EveryRow,
    Expectation,
    Freshness,
    NullFraction,
    RowCount,
    Unique,
    expectations_of,
    read_expectations,
)
from turnstile.expectations.core.row_outcomes import NotEvaluated, evaluate
from turnstile.expectations.delta_source import DeltaSource
from turnstile.expectations.row_check import RowCheck
from turnstile.expectations.table_check import TableCheck
from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.core.sql import predicate_parser
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.errors import InvalidRequest, StorageFault
from turnstile_predicates.predicates import (
    FALSE,
    NULL,
    TRUE,
    UNKNOWN,
    And,
    Comparison,
    In,
    IsNull,
    Kind,
    Not,
    Or,
    Predicate,
    Range,
    StartsWith,
    Value,
    outcomes,
)
from turnstile_rows.errors import TableError


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("amount >= 0", EveryRow("amount >= 0")),
        (" row_count BETWEEN 1 and 20 ", RowCount(((">=", 1.0), ("<=", 20.0)))),
        ("row_count<5", RowCount((("<", 5.0),))),
        ("null_fraction( a.b ) <= 0.01", NullFraction("a.b", "<=", 0.01)),
        ("unique(a,  b)", Unique(("a", "b"))),
        ("freshness(ts) < interval 1 day", Freshness("ts", "<", 86_400_000)),
        ("Freshness( a.b ) <= INTERVAL 90 minutes", Freshness("a.b", "<=", 5_400_000)),
        ("row_count", EveryRow("row_count")),
        ("row_count between 1 and 2 and x > 1", EveryRow("row_count between 1 and 2 and x > 1")),
    ],
)
def test_a_text_is_one_of_five_conditions(text: str, condition: Any) -> None:
    found = expectations_of({"turnstile.expect.e": text, "other": "x"})
    assert found == [Expectation("e", text, condition)]
    assert (
        expectations_of({"turnstile.expect.e": text, "turnstile.expect.e.unchecked": "allow"})[0].unchecked == "allow"
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"a.unchecked": "allow"},
        {"a b": "x > 1"},
        {"": "x > 1"},
        {"a": "x > 1", "a.unchecked": "yes"},
        {"a": "x > 1", "a.on": "write"},
        {"a.on": "commit"},
        {"a": "unique(x)", "a.on": "commit"},
        {"a": "freshness(ts) < interval 1 month"},
        {"a": "freshness(ts) < 1 day"},
        {f"e{number}": "x > 1" for number in range(51)},
    ],
)
def test_other_properties_under_the_prefix_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=r"^(property 'turnstile\.expect\.|.*51 expectations)"):
        expectations_of({f"turnstile.expect.{key}": value for key, value in properties.items()})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (RowCount(((">=", 1), ("<=", 3))), [False, True, True, True, False]),
        (RowCount((("=", 2),)), [False, False, True, False, False]),
        (RowCount((("<", 1),)), [True, False, False, False, False]),
    ],
)
def test_bounds_of_row_counts(condition: RowCount, holds: list[bool]) -> None:
    assert [condition.holds(rows) for rows in range(5)] == holds


def test_bounds_that_mean_something_are_taken() -> None:
    assert len(expectations_of({f"turnstile.expect.e{number}": "x > 1" for number in range(50)})) == 50
    for text in ("row_count between 5 and 5", "null_fraction(x) <= 1", "null_fraction(x) < 0.999"):
        assert len(expectations_of({"turnstile.expect.e": text})) == 1


def test_a_predicate_may_be_checked_at_each_commit_and_others_may_not() -> None:
    given = {"turnstile.expect.a": "x > 1", "turnstile.expect.a.on": "commit", "turnstile.expect.b": "unique(x)"}
    given["turnstile.expect.b.on"] = "promote"
    assert [each.at_commit for each in expectations_of(given)] == [True, False]


@pytest.mark.parametrize(("sign", "holds"), [("<", [True, False, False]), ("<=", [True, True, False])])
def test_bounds_of_ages(sign: str, holds: list[bool]) -> None:
    assert [Freshness("ts", sign, 2).holds(age) for age in (1, 2, 3)] == holds


def test_a_table_without_rows_has_no_nulls() -> None:
    assert NullFraction("a", "<", 0.5).holds(0, 0)
    assert not NullFraction("a", "<", 0.5).holds(1, 2)
    assert NullFraction("a", "<=", 0.5).holds(1, 2)


# -- rows -------------------------------------------------------------------------------------------------------------

VALUES: dict[Kind, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int32(), [-2, 0, 1, 2**31 - 1]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00")]),
    "float": (pa.float32(), [-1.5, 0.0, 1.0, math.inf]),
    "string": (pa.string(), ["", "a", "ab", "b", "é"]),
    "boolean": (pa.bool_(), [False, True]),
    "date": (pa.date32(), [-1, 0, 20_000]),
    "timestamp": (pa.timestamp("us", "UTC"), [-1, 0, 10**15]),
    "timestamp_ntz": (pa.timestamp("us"), [-1, 0, 10**15]),
}


def literals(kind: Kind) -> st.SearchStrategy[Value]:
    _, values = VALUES[kind]
    more = [Value("decimal", Decimal("0.5")), Value("integer", 2**70)] if kind in ("integer", "decimal") else []
    return st.sampled_from([*(Value(kind, value) for value in values), *more])


def predicates(kind: Kind) -> st.SearchStrategy[Predicate]:
    values = st.none() | literals(kind)
    signs = st.sampled_from(["=", "<=>", "<", "<=", ">", ">="])
    leaves: st.SearchStrategy[Predicate] = st.one_of(
        st.builds(Comparison, st.just(("c",)), signs, values),
        st.builds(In, st.just(("c",)), st.lists(values, min_size=1, max_size=3).map(tuple)),
        st.just(IsNull(("c",))),
    )
    if kind == "string":
        leaves |= st.builds(StartsWith, st.just(("c",)), st.sampled_from(["", "a", "ab"]))
    parts = st.lists(leaves, max_size=3).map(tuple)
    return leaves | leaves.map(Not) | parts.map(And) | parts.map(Or)


def exact(kind: Kind, value: Any) -> Range:
    """The bounds of one row."""
    if value is None:
        return Range(kind, has_values=False)
    if isinstance(value, float) and math.isnan(value):
        return Range(kind, low=math.inf, high=-math.inf, has_nulls=False, has_nan=True)
    return Range(kind, value, value, has_nulls=False)


@given(st.data())
@settings(max_examples=examples(400))
def test_i20_a_row_has_the_outcome_that_its_bounds_leave(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(VALUES)))
    type, values = VALUES[kind]
    predicate = data.draw(predicates(kind))
    rows = data.draw(st.lists(st.none() | st.sampled_from(values), max_size=6))
    numbers = pa.array(rows, pa.int32() if kind == "date" else pa.int64()) if kind in _AS_NUMBERS else None
    array = pa.array(rows, type) if numbers is None else numbers.cast(type)
    found = evaluate(predicate, lambda _: (kind, array), len(rows)).to_pylist()
    expected = [outcomes(predicate, lambda _, value=value: exact(kind, value)) for value in rows]  # type: ignore[misc]
    assert [{True: TRUE, False: FALSE, None: NULL}[one] for one in found] == expected


_AS_NUMBERS = ("date", "timestamp", "timestamp_ntz")


@pytest.mark.parametrize(
    ("sign", "expected"), [("=", False), ("<", False), ("<=", False), (">", True), (">=", True), ("<=>", False)]
)
def test_nan_is_above_all_numbers(sign: Any, expected: bool) -> None:
    array = pa.array([math.nan], pa.float64())
    found = evaluate(Comparison(("c",), sign, Value("float", math.inf)), lambda _: ("float", array), 1)
    assert found.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("predicate", "kind"),
    [
        (UNKNOWN, "integer"),
        (Comparison(("c",), "=", Value("string", "1")), "integer"),
        (Comparison(("c",), "=", Value("float", math.nan)), "float"),
        (Comparison(("c",), "=", Value("integer", 1)), None),
        (Comparison(("c",), "<", Value("decimal", Decimal(1).scaleb(-50))), "integer"),
        (StartsWith(("c",), "a"), "integer"),
    ],
)
def test_a_part_that_is_not_evaluated_is_named(predicate: Predicate, kind: Kind | None) -> None:
    array = pa.array([1], pa.float64() if kind == "float" else pa.int64())
    with pytest.raises(NotEvaluated):
        evaluate(And((IsNull(("c",)), predicate)), lambda _: (kind, array), 1)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_whose_statistics_decide_are_not_read() -> None:
    lake = Lake(budget=0)
    assert lake.problem("id > 0", lake.add(1, 2), lake.add(5)) is None
    with pytest.raises(TableError, match="more than 0 bytes"):
        lake.problem("id > 1", lake.add(1, 2))


def test_what_is_read_counts_and_not_what_the_log_says_of_it() -> None:
    lake = Lake(budget=100)
    with pytest.raises(TableError, match="more than 100 bytes"):
        lake.problem("id > 1", {**lake.add(1, 2), "size": 0})


def test_rows_of_files_without_statistics_are_read_and_deleted_ones_are_left_out() -> None:
    lake = Lake()
    assert lake.problem("id > 0", lake.add(1, 2, stats=False)) is None
    assert lake.problem("id > 0", lake.add(-7, 2, deleted=(0,))) is None
    problem = lake.problem("id > 0", lake.add(-5, None, 3), lake.add(-6, stats=False), lake.add(4))
    assert problem is not None and problem.startswith("3 rows in 2 of 3 files, such as ")
    assert '{"id": -5, "s": "x"}, {"id": null, "s": "x"}, {"id": -6, "s": "x"}' in problem


def test_a_refusal_shows_five_rows() -> None:
    lake = Lake()
    problem = lake.problem("id > 100", lake.add(1, 2, 3), lake.add(11, 12, 13, 14))
    assert problem is not None and problem.startswith("7 rows in 2 of 2 files")
    assert problem.count('"id"') == row_check.EXAMPLES


@given(
    st.lists(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=5), min_size=1, max_size=4), st.booleans()
)
@settings(max_examples=examples(60), deadline=None)
def test_i28_an_expectation_is_broken_by_exactly_the_rows_that_do_not_satisfy_it(
    files: list[list[int | None]], stats: bool
) -> None:
    lake = Lake()
    bodies = [lake.add(*ids, stats=stats) for ids in files]
    broken = sum(id is None or id < 0 for ids in files for id in ids)
    problem = lake.problem("id >= 0", *bodies)
    assert problem is None if not broken else str(problem).startswith(f"{broken} rows in ")


# -- freshness --------------------------------------------------------------------------------------------------------

DAY_MS = 86_400_000


def age(
    *highs: str | None, type: str = "timestamp", now_ms: int = 10 * DAY_MS, deleted: str | None = None
) -> str | None:
    """The problem of a table with files that have these newest values; ``deleted``: the one of a
    file with deleted rows."""
    schema = json.dumps({"type": "struct", "fields": [column("ts", type)]})
    metadata = {"id": "m", "schemaString": schema, "partitionColumns": [], "configuration": {}}
    found = DeltaMetadata(0, {"minReaderVersion": 1, "minWriterVersion": 2}, metadata, {})
    source = DeltaSource(fake_world().storages, ReadBudget(0), Table(fake_world()).location, found)
    bodies = [(high, None) for high in highs] + ([(deleted, inline_vector({0}))] if deleted else [])
    files = []
    for high, vector in bodies:
        stats: dict[str, Any] = {"numRecords": 2, "nullCount": {"ts": 2 if high is None else 0}}
        if high:
            stats |= {"minValues": {"ts": "1970-01-01T00:00:00.000Z"}, "maxValues": {"ts": high}}
        body = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
        files.append(source.file({**body, "stats": json.dumps(stats), "deletionVector": vector}))
    source.files = lambda: iter(files)  # type: ignore[method-assign]
    return TableCheck(source, now_ms).problem(Freshness("ts", "<", DAY_MS), None)


def test_the_newest_value_of_all_files_counts() -> None:
    assert age("1970-01-03T00:00:00.000Z", "1970-01-10T12:00:00.000Z", None) is None
    assert age("1970-01-09T12:00:00.000Z", "1970-01-01T00:00:00.000Z") == "the newest value of ts is 129600 s old"
    assert age("1970-01-08", type="date", now_ms=7 * DAY_MS + 1) is None
    assert age("1970-01-08", type="date", now_ms=8 * DAY_MS) == "the newest value of ts is 86400 s old"


def test_a_table_without_values_is_not_fresh() -> None:
    assert age() == age(None) == "ts has no value"


def test_a_value_that_may_be_deleted_does_not_make_a_table_fresh() -> None:
    newest = "1970-01-10T12:00:00.000Z"
    assert age("1970-01-10T11:00:00.000Z", deleted=newest) is None
    with pytest.raises(NotEvaluated, match="may be one of them"):
        age("1970-01-02T00:00:00.000Z", deleted=newest)
    assert age(deleted="1970-01-02T00:00:00.000Z") == "the newest value of ts is 777600 s old"


def test_freshness_needs_a_time_with_statistics() -> None:
    with pytest.raises(InvalidRequest, match="another type"):
        age(type="string")
    with pytest.raises(NotEvaluated, match="which value is its newest"):
        age("yesterday")


# -- commits ----------------------------------------------------------------------------------------------------------


class Commits:
    """Commits to a table with expectations of each of them."""

    def __init__(self, **properties: str) -> None:
        self.lake = Lake()
        given = {f"turnstile.expect.{name.replace('__', '.')}": text for name, text in properties.items()}
        for name in list(given):
            if name.count(".") == 2:
                given[f"{name}.on"] = "commit"
        metadata = {**self.lake.metadata.metadata, "configuration": given}
        self.metadata = msgspec.structs.replace(self.lake.metadata, metadata=metadata)
        self.let_through: list[str] = []
        self.check = CommitCheck(self.lake.world.storages, lambda _location, reason: self.let_through.append(reason))

    def refusal(self, *files: dict[str, Any], whole: bool = True, principal: str = "ann") -> str | None:
        uses = Uses(files=tuple(msgspec.convert(file, Add) for file in files), whole=whole)
        rows = NewRows(self.metadata, "m1", self.lake.table.location, uses, principal, "main.default.t")
        found = self.check.refusal(rows)
        return None if found is None else f"{found.type}: {found.message}"


def test_i29_a_commit_with_rows_that_break_an_expectation_is_refused_with_examples() -> None:
    commits = Commits(positive="id > 0", known="s IS NOT NULL")
    assert commits.refusal(commits.lake.add(1, 2), commits.lake.add(3, stats=False)) is None
    found = commits.refusal(commits.lake.add(1, 2), commits.lake.add(-3, 4, stats=False))
    assert found is not None and found.startswith(
        "ExpectationBroken: expectation 'positive' (id > 0) of 'main.default.t' is broken: 1 rows"
    )
    assert "in 1 of 2 files" in found and '{"id": -3, "s": "x"}' in found


def test_i29_nothing_is_read_where_statistics_decide_or_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_commit, "READ_BYTES", 0)
    commits = Commits(positive="id > 0")
    assert commits.refusal(commits.lake.add(1, 2)) is None
    assert commits.refusal() is None
    found = commits.refusal(commits.lake.add(1, stats=False))
    assert found is not None and "could not be checked: more than 0 bytes" in found


def test_i29_where_nothing_can_be_read_statistics_alone_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_commit, "has_parquet", lambda: False)
    commits = Commits(positive="id > 0")
    assert commits.refusal(commits.lake.add(1)) is None
    found = commits.refusal(commits.lake.add(1, stats=False))
    assert found is not None and "no files are read here" in found


@pytest.mark.parametrize(("text", "problem"), [("id LIKE '%x'", "LIKE needs a text"), ("nothing > 1", "no column")])
def test_i29_a_commit_that_cannot_be_checked_is_refused_unless_the_table_allows_it(text: str, problem: str) -> None:
    refused = Commits(odd=text)
    found = refused.refusal(refused.lake.add(1))
    assert found is not None and "could not be checked" in found and problem in found and not refused.let_through
    allowed = Commits(odd=text, odd__unchecked="allow")
    assert allowed.refusal(allowed.lake.add(1)) is None
    assert len(allowed.let_through) == 1 and problem in allowed.let_through[0]


def test_i29_a_file_that_is_gone_is_not_checked_unless_its_statistics_show_a_bad_row() -> None:
    commits = Commits(positive="id > 0", positive__unchecked="allow", known="id IS NOT NULL", known__unchecked="allow")
    file = {**commits.lake.add(1, stats=False), "path": "gone.parquet"}
    assert commits.refusal(file) is None and len(commits.let_through) == 2
    found = commits.refusal({**commits.lake.add(-1, 2), "path": "gone.parquet"})
    assert str(found).endswith("'positive' (id > 0) of 'main.default.t' is broken: by the statistics of 1 of 1 files")
    found = commits.refusal({**commits.lake.add(None, None), "path": "gone.parquet"})
    assert str(found).count("is broken: by the statistics") == 2
    assert commits.refusal({**commits.lake.add(-1, 2, deleted=(0,)), "path": "gone.parquet"}) is None


def test_i29_a_file_that_cannot_be_read_this_time_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(positive="id > 0", positive__unchecked="allow")

    def fail(*_: Any) -> Any:
        raise StorageFault("slow down")

    monkeypatch.setattr(RowCheck, "read", fail)
    assert commits.refusal(commits.lake.add(1, stats=False)) == "StorageFault: slow down"
    assert commits.refusal(commits.lake.add(1)) is None and not commits.let_through


def test_i29_a_file_that_is_gone_says_nothing_of_other_predicates() -> None:
    commits = Commits(few="id < 100", few__unchecked="allow", positive="id > 0", positive__unchecked="allow")
    gone = {**commits.lake.add(1, 100), "path": "gone.parquet"}
    bad = {
        **commits.lake.add(-1, 2),
        "stats": json.dumps({"numRecords": 2, "maxValues": {"id": 2}, "nullCount": {"id": 0}}),
    }
    found = commits.refusal(gone, bad)
    assert "'positive' (id > 0) of 'main.default.t' is broken: 1 rows in 1 of 2 files" in str(found)
    assert "'few' (id < 100) of 'main.default.t' is broken: by the statistics of 1 of 2 files" in str(found)


@pytest.mark.parametrize(("broken", "more"), [(3, ""), (5, "; and 2 more")])
def test_i29_a_refusal_names_three_expectations(broken: int, more: str) -> None:
    commits = Commits(**{f"e{number}": f"id > {number}" for number in range(broken)})
    found = str(commits.refusal(commits.lake.add(-1)))
    assert found.count("is broken") == 3 and found.endswith("}" + more)


def test_i29_expectations_of_promotions_are_not_checked_at_commits() -> None:
    commits = Commits(now="id > 0")
    given = {**commits.metadata.metadata["configuration"], "turnstile.expect.later": "id > 5"}
    metadata = {**commits.metadata.metadata, "configuration": given}
    commits.metadata = msgspec.structs.replace(commits.metadata, metadata=metadata)
    assert commits.refusal(commits.lake.add(1)) is None
    assert "'now'" in str(commits.refusal(commits.lake.add(0)))
    metadata["configuration"] = None
    table = msgspec.structs.replace(commits.metadata, metadata=metadata)
    assert commits.check.refusal(NewRows(table, "m2", commits.lake.table.location, Uses(), "", "t")) is None


SHOWN = json.dumps(
    {
        "type": "struct",
        "fields": [
            column("n", "long"),
            column("m", "long"),
            column("d", "double"),
            column("f", "float"),
            column("s", "string"),
            column("t", "timestamp"),
            column("day", "date"),
            column("b", "binary"),
        ],
    }
)


@pytest.mark.parametrize(
    ("text", "lows", "more", "certain"),
    [
        ("n > 0", {"n": 0}, {}, True),
        ("n > 0", {"n": 1}, {}, False),
        ("n < 9", {"n": 0}, {}, True),
        ("n > 0 OR n IS NULL", {"n": 0}, {}, True),
        ("n > 0 AND m > 0", {"n": 0, "m": 5}, {}, False),
        ("n > 0", {"n": 0}, {"deletionVector": {"storageType": "i"}}, False),
        ("n > 0", {"n": 0}, {"stats": None}, False),
        ("n > 0", {"n": 0}, {"stats": json.dumps({"numRecords": 0})}, False),
        ("d > 0.5", {"d": 0.25}, {}, True),
        ("f > 0.5", {"f": 0.25}, {}, False),
        ("day > '2026-01-01'", {"day": "2026-01-01"}, {}, True),
        ("s > 'b'", {"s": "a"}, {}, False),
        ("t > '2026-01-01T00:00:00Z'", {"t": "2025-01-01T00:00:00.000Z"}, {}, False),
        ("s IS NOT NULL", {}, {"stats": json.dumps({"numRecords": 2, "nullCount": {"s": 2}})}, True),
        ("s IS NULL", {}, {"stats": json.dumps({"numRecords": 2, "nullCount": {"s": 2}})}, False),
        ("s IS NOT NULL", {}, {"stats": json.dumps({"numRecords": 2, "nullCount": {"s": 1}})}, False),
        ("b IS NOT NULL", {}, {"stats": json.dumps({"numRecords": 2, "nullCount": {"b": 2}})}, False),
    ],
)
def test_i29_statistics_show_a_bad_row_where_their_bounds_are_values_of_rows(
    text: str, lows: dict[str, Any], more: dict[str, Any], certain: bool
) -> None:
    columns = TableColumns({"schemaString": SHOWN, "partitionColumns": [], "configuration": {}})
    highs = {"n": 9, "m": 9, "d": 9.5, "f": 9.5, "s": "z", "t": "2027-01-01T00:00:00.000Z", "day": "2027-01-01"}
    stats = {"numRecords": 2, "nullCount": dict.fromkeys(lows, 0), "minValues": lows}
    stats["maxValues"] = {name: highs[name] for name in lows}
    file = {"path": "f", "partitionValues": {}, "stats": json.dumps(stats), **more}
    predicate = predicate_parser(text)(columns)
    assert is_broken(predicate, columns.schema, file) == certain


def test_a_file_without_rows_decides_every_predicate() -> None:
    commits = Commits(positive="id > 0")
    empty = {**commits.lake.add(-1), "path": "gone.parquet", "stats": json.dumps({"numRecords": 0})}
    assert commits.refusal(empty) is None


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"turnstile.expect.p": "nothing > 1"}, "no column 'nothing'"),
        ({"turnstile.expect.p": "unique(id, nothing)"}, "no column 'nothing'"),
        ({"turnstile.expect.p": "null_fraction(nothing) < 0.5"}, "no column 'nothing'"),
        ({"turnstile.expect.p": "freshness(nothing) < interval 1 day"}, "no column 'nothing'"),
        ({"turnstile.expect.p": "id >"}, "cannot be read"),
        ({"turnstile.expect.p": "small >= 0.1"}, "that no value of the column equals"),
        ({"Turnstile.Expect.p": "id > 0"}, "is misspelled"),
        ({"turnstile.expects.p": "id > 0"}, "is misspelled"),
        ({"turnstile.expect.p": "id > 0", "turnstile.expect.p.On": "commit"}, "is no expectation"),
    ],
)
def test_an_expectation_that_no_row_can_be_checked_by_is_refused_when_it_is_set(
    properties: dict[str, str], problem: str
) -> None:
    commits = Commits()
    schema = json.dumps({"type": "struct", "fields": [column("id", "long"), column("small", "float")]})
    metadata = {**commits.metadata.metadata, "schemaString": schema, "configuration": properties}
    table = msgspec.structs.replace(commits.metadata, metadata=metadata)
    found = commits.check.refusal(NewRows(table, "", commits.lake.table.location, Uses(), "", "t"))
    assert found is not None and problem in found.message
    fine = {"turnstile.expect.p": "id > 0 AND small < 0.5", "turnstile.expect.q": "unique(ID)"}
    metadata["configuration"] = fine
    table = msgspec.structs.replace(commits.metadata, metadata=metadata)
    assert commits.check.refusal(NewRows(table, "", commits.lake.table.location, Uses(), "", "t")) is None


def test_every_property_that_is_none_is_found_beside_the_others() -> None:
    given = {"a": "x > 1", "b.on": "commit", "c": "unique()", "d": "row_count between 5 and 1", "e": "", "f.onn": "x"}
    given |= {"g": "null_fraction(x) < 2", "h": "freshness(ts) > interval 1 day", "i": "y > 1", "i.on": "never"}
    found, refusals = read_expectations({f"turnstile.expect.{key}": value for key, value in given.items()})
    assert [each.name for each in found] == ["a"]
    assert len(refusals) == 8
    assert "set turnstile.expect.b, too" in str(refusals[0].remedy)


def test_i29_of_a_commit_that_is_not_read_whole_no_rows_are_known() -> None:
    commits = Commits(positive="id > 0")
    assert "could not be checked" in str(commits.refusal(commits.lake.add(1), whole=False))
    many = [commits.lake.add(1)] * (at_commit.FILES_MAX + 1)
    assert "could not be checked" in str(commits.refusal(*many))
    assert commits.refusal(*many[:-1]) is None


PREDICATES: dict[str, Any] = {
    "id >= 0": lambda value: value is not None and value >= 0,
    "id IS NOT NULL": lambda value: value is not None,
    "id IN (1, 2) OR id < 0": lambda value: value is not None and (value in {1, 2} or value < 0),
    "NOT (id BETWEEN 0 AND 1)": lambda value: value is not None and not 0 <= value <= 1,
    "id <=> NULL OR s LIKE '%x'": lambda _: True,
}


@given(
    st.lists(
        st.tuples(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=4), st.booleans(), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.sampled_from(sorted(PREDICATES)), min_size=1, max_size=3, unique=True),
)
@settings(max_examples=examples(80), deadline=None)
def test_i29_a_commit_is_refused_exactly_if_a_new_row_breaks_an_expectation(
    files: list[tuple[list[int | None], bool, bool]], predicates: list[str]
) -> None:
    commits = Commits(**{f"e{at}": text for at, text in enumerate(predicates)})
    bodies = []
    there: list[int | None] = []
    for ids, stats, deletes in files:
        bodies.append(commits.lake.add(*ids, stats=stats, deleted=(0,) if deletes else ()))
        there += ids[1:] if deletes else ids
    broken = {text: sum(not PREDICATES[text](id) for id in there) for text in predicates}
    found = commits.refusal(*bodies)
    assert (found is not None) == any(broken.values()), (found, broken)
    for text, count in broken.items():
        assert (f"({text}) of 'main.default.t' is broken: {count} rows in " in str(found)) == (count > 0)


def test_i29_files_are_read_once_for_all_expectations_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = Commits(few="id < 3", odd="s LIKE '%x' AND id > 0", positive="id > 0")
    files = [commits.lake.add(1, 2, stats=False), commits.lake.add(2, 7, -1, stats=False)]
    reads: list[str] = []
    read = RowCheck.read
    monkeypatch.setattr(RowCheck, "read", lambda self, file, names: reads.append(file.path) or read(self, file, names))
    assert str(commits.refusal(*files)).startswith(
        "ExpectationBroken: expectation 'few' (id < 3) of 'main.default.t' is broken: 1 rows in 1 of 2"
    )
    assert reads == ["1.parquet", "2.parquet"]
    allowed = Commits(odd="s LIKE '%x' AND id > 0", odd__unchecked="allow", positive="id > 0")
    found = allowed.refusal(allowed.lake.add(2, -1, -2, stats=False), allowed.lake.add(3))
    for name in ("odd", "positive"):
        assert f"'{name}'" in str(found) and str(found).count("is broken: 2 rows in 1 of 2 files") == 2


def test_columns_that_are_long_after_decompression_are_not_read() -> None:
    lake = Lake(budget=100_000)
    rows = pa.table({"id": pa.array([7] * 200_000, pa.int64()), "s": ["x"] * 200_000})
    sink = io.BytesIO()
    pq.write_table(rows, sink, use_dictionary=False, compression="zstd")
    assert len(sink.getvalue()) < 100_000
    action = lake.add(7, stats=False)
    lake.world.storages.open(lake.table.location).put_if_absent("long.parquet", sink.getvalue())
    with pytest.raises(TableError, match="more than 800000 bytes"):
        lake.problem("id > 1", {**action, "path": "long.parquet"})


def test_a_property_that_is_none_is_named() -> None:
    assert "set it to refuse or allow" not in str(Commits(a="id > 0").refusal())
    assert str(Commits(a="id > 0", a__unchecked="no").refusal()).startswith("ExpectationBroken: property")


def test_i12_a_principal_reads_two_commits_at_once_and_others_go_on() -> None:
    commits = Commits(positive="id > 0")
    file = commits.lake.add(1, stats=False)
    shares = commits.check._shares
    assert shares.begin("ann") and shares.begin("ann")
    assert str(commits.refusal(file)).startswith("Throttled")
    assert commits.refusal(commits.lake.add(1)) is None, "nothing is read"
    assert commits.refusal(file, principal="bob") is None
    shares.end("ann")
    assert commits.refusal(file) is None and commits.refusal(file) is None, "a share ends with its commit"

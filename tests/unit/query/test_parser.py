"""Path queries as text: the parsed query, and the error for a text that is no query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.queries import predicates
from turnstile.catalog.query.core.parser import MAX_CHARACTERS, MAX_DEPTH, MAX_STEPS, MAX_VALUES, parse
from turnstile.catalog.query.core.query import (
    All,
    Compare,
    Exists,
    Field,
    In,
    Like,
    Not,
    Predicate,
    Prefix,
    Query,
    Some,
    Step,
    to_text,
)  # fmt: skip
from turnstile.store.core.errors import InvalidRequest

# -- queries at random --------------------------------------------------------------------------------------------

names = st.from_regex(r"[A-Za-z0-9_@-]{1,8}", fullmatch=True)
steps = st.builds(Step, st.none() | names, st.none() | predicates)
queries = st.builds(Query, names, st.lists(steps, min_size=1, max_size=4).map(tuple))


@given(queries)
def test_a_query_that_is_written_is_read_as_the_same_query(query: Query) -> None:
    assert parse(to_text(query)) == query


@given(st.text(max_size=60) | st.text(alphabet="/[]()=<>!'\"`*,ab \\and or not in like", max_size=60))
def test_any_text_is_a_query_or_refused_with_its_place_and_a_remedy(text: str) -> None:
    refusal = None
    try:
        parse(text)
    except InvalidRequest as error:
        refusal = error
    if refusal is not None:
        assert refusal.field == "query"
        assert refusal.remedy
        assert 1 <= refusal.details["position"] <= len(text) + 1


# -- by example ---------------------------------------------------------------------------------------------------


def test_the_levels_of_a_query_are_names_wildcards_and_predicates() -> None:
    query = parse(" /lake/Sales/[format = \"delta\" and region = 'eu'] / * ")
    both = All((Compare(Field("format"), "=", "delta"), Compare(Field("region"), "=", "eu")))
    assert query == Query("lake", (Step("Sales"), Step(where=both), Step()))
    assert parse("/m/a-b@2[x exists]/*[not y exists]") == Query(
        "m", (Step("a-b@2", Exists(Field("x"))), Step(None, Not(Exists(Field("y")))))
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('a = "x" or b = 1 and c = true', Some((Compare(Field("a"), "=", "x"),
            All((Compare(Field("b"), "=", 1), Compare(Field("c"), "=", True)))))),
        ('(a = "x" or b = 1) and c = -1.5', All((
            Some((Compare(Field("a"), "=", "x"), Compare(Field("b"), "=", 1))), Compare(Field("c"), "=", -1.5)))),
        ('not a = "x" and b <> "y"', All((Not(Compare(Field("a"), "=", "x")), Compare(Field("b"), "!=", "y")))),
        ('NAME NOT IN ("a", "b")', Not(In(Field("NAME"), ("a", "b")))),
        ('name not like "a%"', Not(Like(Field("name"), "a%"))),
        ("delta.appendOnly = true", Compare(Field("delta.appendOnly"), "=", True)),
        (r'`my key` prefix "a\"b\\c"', Prefix(Field("my key", quoted=True), r'a"b\c')),
        (r'name like "100\%"', Like(Field("name"), r"100\%")),
        ("`name` = 'x'", Compare(Field("name", quoted=True), "=", "x")),
    ],
)  # fmt: skip
def test_and_binds_tighter_than_or_and_not_tighter_than_both(text: str, wanted: Predicate) -> None:
    assert parse(f"/m/[{text}]").steps[0].where == wanted


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "'/'"),
        ("lake/sales", 1, "'/'"),
        ("/", 2, "the name of a catalog"),
        ("/*/x", 2, "the name of a catalog"),
        ("/lake", 6, "a level below the catalog"),
        ("/lake/", 7, "a level"),
        ("/lake//x", 7, "a level"),
        ("/lake/a.b", 8, "'/' or the end"),
        ("/lake/[", 8, "an attribute or a property"),
        ("/lake/[]", 8, "an attribute or a property"),
        ("/lake/[region]", 14, "=, !=, <"),
        ("/lake/[region = ]", 17, "a value"),
        ("/lake/[region = eu]", 17, "a value"),
        ("/lake/[region = 7days]", 17, "a value"),
        ('/lake/[region = "eu]', 17, 'a closing "'),
        ("/lake/[`region = 1]", 8, "a closing `"),
        ('/lake/[region = "eu"', 21, "']'"),
        ('/lake/[region = "eu" x]', 22, "'and', 'or' or ']'"),
        ('/lake/[(region = "eu"]', 22, "')'"),
        ('/lake/[region in "eu"]', 18, "'('"),
        ('/lake/[region in ("eu" "us")]', 24, "',' or ')'"),
        ("/lake/[name like 5]", 18, "a text in quotes"),
        ('/lake/[region not = "eu"]', 19, "in, like or prefix"),
        ('/lake/[created > "yesterday"]', 18, "a number"),
        ("/lake/[name = 5]", 15, "a text in quotes"),
        ("/lake/[managed = 1]", 18, "true or false"),
        ("/lake/[and = 1]", 8, "an attribute or a property"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_place(text: str, position: int, expected: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse(text)
    assert error.value.details["position"] == position
    assert f"character {position}: expected" in error.value.message
    assert expected in error.value.message
    assert error.value.remedy


@pytest.mark.parametrize(
    "text",
    [
        "/m/" + "x" * MAX_CHARACTERS,
        "/m" + "/*" * (MAX_STEPS + 1),
        "/m/[" + "(" * (MAX_DEPTH + 1) + "a exists",
        "/m/[" + "not " * (MAX_DEPTH + 1) + "a exists]",
        "/m/[a in (" + "1," * MAX_VALUES + "1)]",
    ],
    ids=["characters", "levels", "parentheses", "nots", "values"],
)
def test_what_is_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse(text)
    assert "at most" in (error.value.remedy or "")

"""Whether an answer to a path query is still the same: the decision about reads of the catalog
(I9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.catalog.core.entities import Entity, IcebergTable, Namespace, Table
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.query.core.differences import Difference, differences, differences_of_ids
from turnstile.rights.grants import Access


def table(id: str, location: str = "", comment: str | None = None, access: Access | None = None) -> Table:
    return Table("t", id, location or f"s3://b/{id}", 1, comment=comment, access=access or Access("ann"))


def answer(**entities: Entity) -> dict[str, Entity]:
    """Things of ``s``, by key."""
    return {key_of(("s", name)): entity for name, entity in entities.items()}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (answer(), answer(), []),
        (answer(a=table("1")), answer(a=table("1", comment="x", access=Access("bob"))), []),
        (answer(a=table("1")), answer(), [Difference("gone", "s.a")]),
        (answer(), answer(a=table("1")), [Difference("appeared", "s.a")]),
        (answer(a=table("1")), answer(b=table("1")), [Difference("renamed", "s.a", "s.b")]),
        (answer(a=table("1")), answer(a=table("2")), [Difference("replaced", "s.a")]),
        (answer(a=table("1")), answer(a=table("1", location="s3://b/other")), [Difference("replaced", "s.a")]),
        (answer(a=table("1", location="l")), answer(a=IcebergTable("t", "1", "l", "m", 1)),
         [Difference("replaced", "s.a")]),
        (answer(a=table("1")), answer(b=table("1", location="s3://b/other")),
         [Difference("gone", "s.a"), Difference("appeared", "s.b")]),
        (answer(a=table("1"), b=table("2")), answer(a=table("2")),
         [Difference("replaced", "s.a"), Difference("renamed", "s.b", "s.a")]),
        (answer(a=table("1"), b=table("2")), answer(a=table("2"), b=table("1")),
         [Difference("renamed", "s.a", "s.b"), Difference("replaced", "s.a"),
          Difference("renamed", "s.b", "s.a"), Difference("replaced", "s.b")]),
        (answer(a=Namespace("a", "", 1)), answer(b=Namespace("b", "", 1)),
         [Difference("gone", "s.a"), Difference("appeared", "s.b")]),
    ],
)  # fmt: skip
def test_i9_a_difference_is_a_name_that_leads_to_something_else(
    before: dict[str, Entity], now: dict[str, Entity], expected: list[Difference]
) -> None:
    assert list(differences(before, now)) == expected


def test_i9_an_answer_known_by_its_ids_is_compared_by_them() -> None:
    now = answer(a=table("1"), b=table("2"))
    assert differences_of_ids({"1", "2"}, now) == ()
    assert differences_of_ids({"1", "3"}, now) == (Difference("gone", "3"), Difference("appeared", "s.b"))
    assert differences_of_ids(set(), answer()) == ()


_ANSWERS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("1234").map(table), max_size=4).filter(
    lambda answer: len({entity.table_id for entity in answer.values()}) == len(answer)
)


@given(_ANSWERS, _ANSWERS)
def test_i9_nothing_is_different_exactly_if_all_names_lead_to_the_same_tables(
    before: dict[str, Table], now: dict[str, Table]
) -> None:
    ids = [{name: entity.table_id for name, entity in answer.items()} for answer in (before, now)]
    assert (differences(before, now) == ()) == (ids[0] == ids[1])
    same = set(ids[0].values()) == set(ids[1].values())
    assert (differences_of_ids(ids[0].values(), now) == ()) == same

"""The entities that names lead to after changes of the catalog that a transaction holds back."""

from __future__ import annotations

import pytest

from turnstile_http.errors import ApiError
from turnstile_spark.transactions.scopes.catalog_changes import CatalogChanges, MovedTable, Name, NewNamespace, NewTable


@pytest.fixture
def swap() -> CatalogChanges:
    """``s.old`` dropped, ``s.new`` in its place, ``s.third`` in the place of that, in a namespace
    that is created."""
    changes = CatalogChanges()
    changes.add(MovedTable("1", Name("s", "old"), None))
    changes.add(MovedTable("2", Name("s", "new"), Name("s", "old")))
    changes.add(NewNamespace("t.u", "ours", {"k": "v"}))
    changes.add(MovedTable("3", Name("s", "third"), Name("S", "New")))
    return changes


def test_i8_a_name_leads_to_what_has_it_now_and_the_server_is_asked_by_its_name_before(swap: CatalogChanges) -> None:
    assert swap.origin(Name("s", "OLD")) == Name("s", "new")
    assert swap.origin(Name("s", "new")) == Name("s", "third")
    assert swap.origin(Name("s", "other")) == Name("s", "other")
    with pytest.raises(ApiError, match=r"'s\.third' was dropped or renamed"):
        swap.origin(Name("s", "third"))


def test_i8_a_list_has_the_names_after_the_changes(swap: CatalogChanges) -> None:
    assert swap.tables("s", ["old", "new", "third", "kept"]) == ["New", "kept", "old"]
    assert swap.tables("t.u", []) == []
    assert swap.namespaces() == ["t.u"]
    assert swap.namespace("T.U") == NewNamespace("t.u", "ours", {"k": "v"})
    assert swap.namespace("t") is None


def test_i8_what_is_given_up_leaves_the_names_as_they_were(swap: CatalogChanges) -> None:
    assert (swap.moves("3"), len(swap)) == (True, 4)
    swap.go_back(1)
    assert (swap.moves("1"), swap.moves("3"), len(swap)) == (True, False, 1)
    assert swap.origin(Name("s", "third")) == Name("s", "third")
    with pytest.raises(ApiError, match="dropped or renamed"):
        swap.origin(Name("s", "old"))


def test_i8_the_changes_are_sent_in_their_order(swap: CatalogChanges) -> None:
    assert swap.bodies() == [
        {"change": "drop_table", "namespace": "s", "table": "old"},
        {"change": "rename_table", "namespace": "s", "table": "new", "name": "old", "to_namespace": "s"},
        {"change": "create_namespace", "name": "t.u", "properties": {"k": "v"}, "comment": "ours"},
        {"change": "rename_table", "namespace": "s", "table": "third", "name": "New", "to_namespace": "S"},
    ]


def test_i8_a_table_that_is_created_has_its_name_at_once_also_one_that_was_freed(swap: CatalogChanges) -> None:
    assert (swap.is_freed(Name("S", "third")), swap.is_freed(Name("s", "kept"))) == (True, False)
    swap.add(NewTable("4", Name("s", "Third")))
    assert swap.origin(Name("s", "third")) == Name("s", "Third")
    assert swap.tables("S", ["old", "new", "third", "kept"]) == ["New", "Third", "kept", "old"]
    assert swap.tables("other", []) == []
    assert (swap.new_tables(), swap.moves("4")) == ([NewTable("4", Name("s", "Third"))], False)
    assert swap.bodies()[-1] == {"change": "create_table", "namespace": "s", "name": "Third", "table_id": "4"}
    swap.go_back(4)
    assert swap.new_tables() == []

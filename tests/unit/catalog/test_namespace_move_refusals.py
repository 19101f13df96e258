"""Renames of a namespace that are refused: why, and that nothing changes (I9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.catalog import EVENTS, create, fresh, head_of, put, refused, sales, set_state
from turnstile.catalog.core.entities import External
from turnstile.catalog.core.paths import MAX_LEVELS
from turnstile.catalog.rename import MAX_TABLES
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import AlreadyExists, InvalidRequest, NotFound, StateConflict, TooLarge, TurnstileError

Refusal = tuple[Callable[[CatalogServices], object], type[TurnstileError], str]

REFUSALS: dict[str, Refusal] = {
    "no such catalog": (lambda s: s.namespace_mover.rename("nope", ("sales",), "x"), NotFound, "catalog"),
    "no such namespace": (lambda s: s.namespace_mover.rename("main", ("nope",), "x"), NotFound, "namespace"),
    "a table": (lambda s: s.namespace_mover.rename("main", ("sales", "orders"), "x"), NotFound, "namespace"),
    "no such parent": (lambda s: s.namespace_mover.rename("main", ("sales",), "x", ("no",)), NotFound, "namespace"),
    "below a table": (
        lambda s: s.namespace_mover.rename("main", ("sale",), "x", ("sales", "orders")), NotFound, "namespace"),
    "taken": (lambda s: s.namespace_mover.rename("main", ("sales",), "sale"), AlreadyExists, "name"),
    "taken in another case": (lambda s: s.namespace_mover.rename("main", ("sale",), "SALES"), AlreadyExists, "name"),
    "taken by a table": (
        lambda s: s.namespace_mover.rename("main", ("sale",), "ORDERS", ("sales",)), AlreadyExists, "name"),
    "taken by its parent": (lambda s: s.namespace_mover.rename("main", ("sales", "eu"), "Sales", ()), AlreadyExists,
                            "name"),
    "into itself": (lambda s: s.namespace_mover.rename("main", ("sales",), "x", ("SALES",)), InvalidRequest,
                    "namespace"),
    "below itself": (
        lambda s: s.namespace_mover.rename("main", ("sales",), "x", ("sales", "EU")), InvalidRequest, "namespace"),
    "no name": (lambda s: s.namespace_mover.rename("main", ("sales",), ""), InvalidRequest, "name"),
    "several names": (lambda s: s.namespace_mover.rename("main", ("sales",), "a.b"), InvalidRequest, "name"),
    "nothing": (lambda s: s.namespace_mover.rename("main", (), "a"), InvalidRequest, "namespace"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_i9_what_is_refused_changes_nothing(name: str) -> None:
    services = fresh()
    sales(services)
    call, error, field = REFUSALS[name]
    assert refused(error, services, lambda: call(services)).field == field


@pytest.mark.parametrize("state", ["stuck", "leaving", "recovering"])
def test_i10_a_table_that_takes_no_commits_keeps_its_namespace_where_it_is(state: str) -> None:
    services = fresh()
    ids = sales(services)
    set_state(services, ids["EU.Items"], state)
    error = refused(StateConflict, services, lambda: services.namespace_mover.rename("main", ("sales",), "trade"))
    assert (error.type, error.details["state"]) == ("TableNotActive", state)
    assert "'main.Sales.EU.Items' is " + state in error.message


def test_what_is_in_it_is_not_nested_too_deeply() -> None:
    services = fresh()
    deep = tuple("abcdefghi")
    services.namespaces.create("main", deep)
    services.namespaces.create("main", ("x", "y"))
    assert len(deep) == MAX_LEVELS - 1
    error = refused(InvalidRequest, services, lambda: services.namespace_mover.rename("main", ("a",), "a", ("x", "y")))
    assert f"{MAX_LEVELS + 1} levels" in error.message
    services.namespace_mover.rename("main", ("a",), "a", ("x",))
    assert services.namespaces.get("main", ("x", *deep)).name == ("x", *deep)


def test_as_many_tables_move_as_one_transaction_holds() -> None:
    """I8, I9: not in steps: in between, a table's name would be the old one or the new one,
    depending on the table."""
    services = fresh()
    services.namespaces.create("main", ("n",))
    ids = [create(services, f"t{n}", "n") for n in range(MAX_TABLES)]
    services.externals.register("main", ("n",), "e", location="s3://b/x", format="csv", about=External())
    put(services, {("n", "events"): EVENTS})
    services.namespace_mover.rename("main", ("n",), "m")
    assert {head_of(services.world, id).name for id in ids} == {f"main.m.t{n}" for n in range(MAX_TABLES)}
    create(services, "more", "m")
    error = refused(TooLarge, services, lambda: services.namespace_mover.rename("main", ("m",), "n"))
    assert (error.details["limit"], error.remedy) == (
        MAX_TABLES,
        "create the new namespace, and rename the tables into it one by one",
    )

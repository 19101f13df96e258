"""The rights of principals: every operation, by every principal, on the real handlers, against
matrix.txt (I12)."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.support.access.operations import OPERATIONS
from tests.support.access.realm import Realm, functions
from turnstile.api.http.authorization import NEEDS
from turnstile.api.http.handler import Router

Rights = list[tuple[str, str, str]]
"""Securable type, full name, and a privilege or OWNER."""

USE_CATALOG = ("catalog", "main", "USE CATALOG")
USE_SCHEMA = ("schema", "main.sales", "USE SCHEMA")
SELECT = ("table", "main.sales.t1", "SELECT")
MODIFY = ("table", "main.sales.t1", "MODIFY")
CREATE_SCHEMA = ("catalog", "main", "CREATE SCHEMA")
CREATE_TABLE = ("schema", "main.sales", "CREATE TABLE")
EXTERNAL = ("metastore", "metastore", "CREATE EXTERNAL TABLE")
READ_FILES = ("metastore", "metastore", "READ FILES")
WRITE_FILES = ("metastore", "metastore", "WRITE FILES")
USES = [USE_CATALOG, USE_SCHEMA]
OWNS_TABLE = ("table", "main.sales.t1", "OWNER")
OWNS_SCHEMA = ("schema", "main.sales", "OWNER")
EVERY = ("USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY", "PROMOTE")

STANDINGS: dict[str, Rights] = {
    "-": [],
    "C": [USE_CATALOG],
    "S": [USE_SCHEMA],
    "s": [SELECT],
    "m": [MODIFY],
    "n": [CREATE_SCHEMA],
    "t": [CREATE_TABLE],
    "CS": USES,
    "CSs": [*USES, SELECT],
    "CSm": [*USES, MODIFY],
    "CSsm": [*USES, SELECT, MODIFY],
    "CSn": [*USES, CREATE_SCHEMA],
    "CSt": [*USES, CREATE_TABLE],
    "CSte": [*USES, CREATE_TABLE, EXTERNAL],
    "oT": [OWNS_TABLE],
    "CSoT": [*USES, OWNS_TABLE],
    "CStoT": [*USES, CREATE_TABLE, OWNS_TABLE],
    "oS": [OWNS_SCHEMA],
    "CoS": [USE_CATALOG, OWNS_SCHEMA],
    "oC": [("catalog", "main", "OWNER")],
    "all": [("catalog", "main", privilege) for privilege in EVERY],
    "k": [("metastore", "metastore", "CREATE CATALOG")],
    "e": [EXTERNAL],
    "r": [READ_FILES],
    "w": [WRITE_FILES],
    "rw": [READ_FILES, WRITE_FILES],
    "role": [*USES, SELECT, MODIFY],
    "adm": [],
    "f": [("metastore", "metastore", "CREATE REFERENCE")],
    "Rs": [("ref", "app", "SELECT")],
    "Rm": [("ref", "app", "MODIFY")],
    "Ro": [("ref", "app", "OWNER")],
    "Cp": [USE_CATALOG, ("catalog", "main", "PROMOTE")],
    "most": [("catalog", "main", privilege) for privilege in EVERY if privilege != "PROMOTE"],
}
"""Code of a column: C and S USE of catalog and schema, s SELECT, m MODIFY, n CREATE SCHEMA
(catalog), t CREATE TABLE (schema), p PROMOTE (catalog), o owner of table, schema or catalog, all:
every privilege on the catalog, most: all but PROMOTE; of the metastore: k CREATE CATALOG, e CREATE
EXTERNAL TABLE, r READ FILES, w WRITE FILES, f CREATE REFERENCE; of the reference: Rs SELECT, Rm
MODIFY, Ro owner. ``role`` has them by its role, ``adm`` is an admin."""

OPEN = (
    "show rights on ref",
    "service",
    "list transactions",
    "list reservations",
    "release",
    "unity summary",
    "list catalogs",
    "unity list catalogs",
    "show rights",
    "show permissions",
)
"""Operations that are open to all: about nothing, or about the caller's own."""

USER = {"role": "member", "adm": "root"}
"""The callers; ann for all others."""


@functools.cache
def realm() -> Realm:
    return Realm()


@functools.cache
def prepared(code: str) -> Realm:
    """The realm in which the caller has these rights."""
    made = realm().copy()
    name = "team" if code == "role" else "ann"
    for kind, full_name, right in STANDINGS[code]:
        if right == "OWNER":
            made.own(kind, full_name, name)
        else:
            made.grant(kind, full_name, name, right)
    return made


@functools.cache
def written() -> dict[str, dict[str, str]]:
    """Operation -> column -> ``x`` or ``.``, as the table has it."""
    head, *rows = (Path(__file__).parent / "matrix.txt").read_text().splitlines()
    width = head.index(" - ")
    assert head[width:].split() == [*STANDINGS]
    return {row[:width].strip(): dict(zip(STANDINGS, row[width:].split(), strict=True)) for row in rows}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_i12_an_operation_is_open_to_principals_that_the_table_names_and_changes_nothing_for_others(
    operation: str,
) -> None:
    found = {}
    for code in STANDINGS:
        here = prepared(code).copy()
        asked = OPERATIONS[operation](here)
        before = here.state()
        answer = here.ask(USER.get(code, "ann"), asked.method, asked.path, asked.body, **asked.query)
        assert answer.status == 403 or answer.status < 300, (code, answer.text)
        found[code] = "." if answer.status == 403 else "x"
        if answer.status == 403:
            assert here.state() == before, code
            assert "PERMISSION_DENIED" in answer.text or "PermissionDenied" in answer.text or asked.method == "HEAD"
    assert found == written()[operation]


def test_the_table_has_a_row_for_every_operation_and_a_column_for_every_principal() -> None:
    assert written().keys() == OPERATIONS.keys()
    assert all({*row.values()} <= {"x", "."} for row in written().values())


def test_i12_a_principal_without_rights_may_ask_only_about_itself() -> None:
    allowed = {operation for operation, row in written().items() if row["-"] == "x"}
    assert allowed == {*OPEN}


def test_i12_what_a_role_was_granted_its_members_have() -> None:
    assert all(row["role"] == row["CSsm"] for row in written().values())


def test_i12_the_table_has_a_row_for_every_route_of_these_functions() -> None:
    served = {
        (method, route)
        for name, module in functions().items()
        if name != "rows"  # it answers no request
        for route, methods in module.app.routes.items()
        for method in methods
    }
    router = Router({route for _, route in served})
    asked = set()
    for operation in OPERATIONS.values():
        one = operation(realm().copy())
        found = router.match(one.path)
        assert found is not None
        asked.add((one.method, found[0]))
    assert served - asked == set()


@pytest.mark.parametrize("name", ["commit", "catalog", "plans", "branches", "ingest"])
def test_i12_every_route_declares_what_it_needs(name: str) -> None:
    module = functions()[name]
    entries = [entry for methods in module.app.routes.values() for entry in methods.values()]
    assert len(entries) == len({entry.view_name for entry in entries}), "two views of one name"
    assert all(getattr(entry.view_function, NEEDS) for entry in entries)

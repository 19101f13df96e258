"""Refusals name the wrong member, the right value and the person to ask; misleading names are
refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.realm import B, Realm
from tests.support.functions import Answer

CATALOG = "/v1/catalogs/main"
NAMESPACES = CATALOG + "/namespaces"
PERMISSIONS = "/v1/permissions"
NO_TABLE = "/v1/tables/00000000-0000-4000-8000-00000000ffff"


@pytest.fixture
def realm() -> Realm:
    return Realm()


def refused(answer: Answer, status: int, type: str, field: str) -> dict[str, Any]:
    error = answer.error
    assert (answer.status, error["type"], error.get("field")) == (status, type, field), answer.text
    assert error["remedy"], "everybody is told what to do"
    return error


@pytest.mark.parametrize(
    ("asked", "told", "remedy"),
    [
        (("POST", NAMESPACES, {"name": "a.b.c.d.e.f.g.h.i.j.k"}), (400, "InvalidRequest", "name"), "10 levels"),
        (("GET", NAMESPACES + "/none", None), (404, "NoSuchNamespace", "namespace"), "check the name"),
        (("DELETE", NAMESPACES + "/none", None), (404, "NoSuchNamespace", "namespace"), "check the name"),
        (("PATCH", NAMESPACES + "/none", {"set": {"a": "b"}}), (404, "NoSuchNamespace", "namespace"), "check the name"),
        (("GET", NAMESPACES + "/none/tables/t", None), (404, "NoSuchNamespace", "namespace"), "check the name"),
        (("POST", NAMESPACES + "/none/staging-tables", {"name": "t"}), (404, "NoSuchNamespace", "namespace"),
         "create it first"),
        (("POST", NAMESPACES + "/sales/tables/t1/rename", {"name": "t", "namespace": "none"}),
         (404, "NoSuchNamespace", "namespace"), "create it first"),
        (("POST", NO_TABLE + "/publish", {}), (404, "NoSuchTable", "table_id"), "load the table by name"),
        (("POST", NO_TABLE + "/repair", {}), (404, "NoSuchTable", "table_id"), "load the table by name"),
        (("GET", NO_TABLE + "/repair", None), (404, "NoSuchTable", "table_id"), "load the table by name"),
        (("GET", PERMISSIONS + "/schema/main", None), (404, "NoSuchNamespace", "full_name"), "write catalog.schema"),
        (("GET", PERMISSIONS + "/table/main.t1", None), (404, "NoSuchTable", "full_name"),
         "write catalog.schema.table"),
        (("GET", PERMISSIONS + "/catalog/none", None), (404, "NoSuchCatalog", "full_name"), "check the name"),
        (("GET", PERMISSIONS + "/table/main.sales.none", None), (404, "NoSuchTable", "full_name"), "check the name"),
        (("GET", PERMISSIONS + "/view/main", None), (400, "InvalidRequest", "securable_type"),
         "metastore, catalog, schema, table, ref"),
        (("PATCH", PERMISSIONS + "/view/main", {"owner": "ann"}), (400, "InvalidRequest", "securable_type"),
         "metastore, catalog, schema, table, ref"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_member_and_what_to_do(
    realm: Realm, asked: tuple[str, str, Any], told: tuple[int, str, str], remedy: str
) -> None:
    assert remedy in refused(realm.ask("root", *asked), *told)["remedy"]


@pytest.mark.parametrize("full_name", [".sales.t1", "main..t1", "main.sales.", "..", "."])
def test_a_name_with_a_part_missing_is_shown_whole(realm: Realm, full_name: str) -> None:
    error = refused(realm.ask("root", "GET", f"{PERMISSIONS}/table/{full_name}"), 404, "NoSuchTable", "full_name")
    assert error["message"] == f"table '{full_name}' does not exist"
    assert realm.ask("root", "GET", f"{B}/tables/{full_name}").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", CATALOG + "/reset", {"to": {"seq": 0}}),
        ("POST", "/v1/catalogs/none/reset", {"to": {"seq": 0}}),
        ("POST", "/v1/gc", {}),
        ("GET", "/v1/tables", None),
        ("POST", NAMESPACES + "/sales/imports", {"name": "t", "location": "s3://b/t"}),
        ("PATCH", PERMISSIONS + "/metastore/metastore", {"changes": [{"principal": "ann", "add": ["CREATE CATALOG"]}]}),
    ],
)
def test_i12_what_is_for_admins_says_so(realm: Realm, method: str, path: str, body: Any) -> None:
    answer = realm.ask("ann", method, path, body)
    assert (answer.status, answer.error["type"]) == (403, "PermissionDenied"), answer.text
    assert answer.error["message"] == "'ann' is no admin, and this is for admins"
    assert answer.error["remedy"] == "ask an admin to do it"


def test_i12_a_right_on_the_metastore_is_asked_of_admins(realm: Realm) -> None:
    error = realm.ask("ann", "POST", "/v1/catalogs", {"name": "hers"}).error
    assert (error["message"], error["remedy"]) == (
        "'ann' may not create catalog",
        "ask an admin for the grant on the metastore",
    )


def test_i12_every_refusal_of_a_right_says_what_to_do(realm: Realm) -> None:
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA", "CREATE TABLE")
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    theirs = {"name": "t2", "table_id": realm.staged["bob"]}
    asked = realm.ask("ann", "POST", NAMESPACES + "/sales/tables", theirs)
    assert "of your own" in refused(asked, 403, "PermissionDenied", "table_id")["remedy"]
    answer = realm.ask("ann", "DELETE", NAMESPACES + "/sales")
    assert (answer.status, bool(answer.error["remedy"])) == (403, True)


def test_i12_a_wrong_name_is_no_grant_on_the_whole_metastore(realm: Realm) -> None:
    """Over our own API; Unity Catalog's clients write its id, its type or anything else, and go on
    working."""
    changes = {"changes": [{"principal": "ann", "add": ["CREATE CATALOG"]}]}
    for name in ("zzz", "main", "main.sales"):
        for method, body in (("PATCH", changes), ("GET", None)):
            answer = realm.ask("root", method, f"{PERMISSIONS}/metastore/{name}", body)
            assert "metastore/metastore" in refused(answer, 400, "InvalidRequest", "full_name")["remedy"]
    assert realm.ask("ann", "POST", "/v1/catalogs", {"name": "hers"}).status == 403
    id = realm.must("GET", f"{B}/metastore_summary").json["metastore_id"]
    for name in (id, "metastore", "unity"):
        assert realm.must("PATCH", f"{B}/permissions/metastore/{name}", changes).status == 200
    assert realm.must("GET", f"{PERMISSIONS}/metastore/metastore").json["grants"] == [
        {"principal": "ann", "privileges": ["CREATE CATALOG"]}
    ]


@pytest.mark.parametrize("name", [" ", "ann ", "\u00a0ann", "\t"])
def test_i12_space_is_no_name_of_a_principal(realm: Realm, name: str) -> None:
    asked = realm.ask("root", "PATCH", f"{PERMISSIONS}/table/main.sales.t1", {"owner": name})
    refused(asked, 400, "InvalidRequest", "owner")
    change = {"changes": [{"principal": name, "add": ["SELECT"]}]}
    asked = realm.ask("root", "PATCH", f"{PERMISSIONS}/table/main.sales.t1", change)
    refused(asked, 400, "InvalidRequest", "changes.principal")
    asked = realm.ask("root", "PATCH", f"{PERMISSIONS}/table/main.sales.t1", {"owner": "Ann of Sales"})
    assert asked.json["owner"] == "Ann of Sales"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_reference_is_not_called_as_a_path_calls_itself_or_its_parent(realm: Realm, name: str) -> None:
    """Clients resolve such a segment before they send it, and would ask for something else."""
    error = refused(realm.ask("root", "POST", "/v1/refs", {"name": name, "value": "v"}), 400, "InvalidRequest", "name")
    assert "not '.' or '..'" in error["remedy"]
    for other in ("...", ".a", "a.", "..a"):
        assert realm.ask("root", "POST", "/v1/refs", {"name": other, "value": "v"}).status == 201

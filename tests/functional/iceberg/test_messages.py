"""Refusals have the words of Java's catalogs, since clients and their tests look for them; what to
do follows (I12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions import Http, function
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, VIEW, Iceberg, creation, refused
from turnstile.catalog.core.entities import External

CREATED = [{"type": "assert-create"}]


@pytest.fixture
def client() -> Iceberg:
    """Table ``sales.t1`` and view ``sales.v1``."""
    made = Iceberg()
    made.create()
    assert made.post(f"{SALES}/views", VIEW).status == 200
    return made


def rename(kind: str, source: str, target: str, namespace: str = "sales") -> tuple[str, dict[str, Any]]:
    names = {"source": {"namespace": ["sales"], "name": source}}
    return f"{MAIN}/{kind}/rename", {**names, "destination": {"namespace": [namespace], "name": target}}


def test_what_is_missing_is_named_as_java_names_it(client: Iceberg) -> None:
    missing = {
        f"{SALES}/tables/none": (404, "NoSuchTableException", "Table does not exist: sales.none; "),
        f"{SALES}/tables/v1": (404, "NoSuchTableException", "Table does not exist: sales.v1; "),
        f"{SALES}/views/t1": (404, "NoSuchViewException", "View does not exist: sales.t1; "),
        f"{MAIN}/namespaces/none/tables/t": (404, "NoSuchTableException", "Table does not exist: none.t; "),
    }
    for path, (status, type, words) in missing.items():
        assert refused(client.get(path), status, type).startswith(words)
    for answer in (
        client.get(f"{MAIN}/namespaces/none"),
        client.get(f"{MAIN}/namespaces/none/tables"),
        client.post(f"{MAIN}/namespaces/none/tables", {"name": "t", "schema": SCHEMA}),
        client.post(*rename("tables", "t1", "t2", "none")),
    ):
        assert refused(answer, 404, "NoSuchNamespaceException") == "Namespace does not exist: none"


def test_a_name_of_another_kind_is_said_to_be_that(client: Iceberg) -> None:
    app = function("commit")
    app.use_world(client.world)
    http = Http(app.app)
    for name, words in (("t1", "it is an Iceberg table"), ("v1", "it is a view")):
        error = http.get(f"/v1/catalogs/main/namespaces/sales/tables/{name}").error
        assert error["type"] == "NoSuchTable" and error["remedy"].startswith(words)
    path = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/sales/tables/t1"
    assert "it is an Iceberg table" in http.get(path).error["message"]
    about = External(properties={})
    catalog = client.services.open_catalog
    catalog.externals.register("main", ("sales",), "e1", location="s3://other/e1", format="delta", about=about)
    assert "it is an external table: read it by its location" in refused(
        client.get(f"{SALES}/tables/e1"), 404, "NoSuchTableException"
    )


def test_a_name_that_is_taken_says_by_what_as_java_does(client: Iceberg) -> None:
    staged = client.post(f"{SALES}/tables", {"name": "t9", "schema": SCHEMA, "stage-create": True}).json["metadata"]
    file = client.load()["metadata-location"]
    commit = {"requirements": CREATED, "updates": creation(staged)}
    taken = [
        (f"{SALES}/tables", {"name": "t1", "schema": SCHEMA}, "Table already exists: sales.t1; "),
        (
            f"{SALES}/tables",
            {"name": "t1", "schema": SCHEMA, "location": "file:///t"},
            "Table already exists: sales.t1; ",
        ),
        (f"{SALES}/tables", {"name": "v1", "schema": SCHEMA}, "View with same name already exists: sales.v1; "),
        (f"{SALES}/views", VIEW, "View already exists: sales.v1; "),
        (f"{SALES}/views", {**VIEW, "name": "t1"}, "Table with same name already exists: sales.t1; "),
        (f"{SALES}/register", {"name": "t1", "metadata-location": file}, "Table already exists: sales.t1; "),
        (
            f"{SALES}/register",
            {"name": "v1", "metadata-location": file},
            "View with same name already exists: sales.v1; ",
        ),
        (f"{MAIN}/namespaces", {"namespace": ["sales"]}, "Namespace already exists: sales; "),
        (f"{MAIN}/namespaces", {"namespace": ["sales", "t1"]}, "Table with same name already exists: sales.t1; "),
        (*rename("tables", "t1", "v1"), "Cannot rename sales.t1 to sales.v1. View already exists; "),
        (*rename("views", "v1", "t1"), "Cannot rename sales.v1 to sales.t1. Table already exists; "),
    ]
    for path, body, words in taken:
        assert refused(client.post(path, body), 409, "AlreadyExistsException").startswith(words), words
    for path, words in ((T1, "Requirement failed: table already exists"), (f"{SALES}/tables/v1", taken[2][2][:-2])):
        assert refused(client.post(path, commit), 409, "CommitFailedException").startswith(words)

"""However large what is stored becomes, answers fit into the 6 MB that Lambda sends: every answer
of these tests is weighed by ``Http.send``. Control characters are the worst, since a byte of them
becomes seven."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest

from tests.support.fakes.world import FakeWorld
from tests.support.functions import Http, function
from tests.support.iceberg.client import MAIN, SALES, T1, Iceberg, refused, set_properties
from tests.support.unity import B, Unity
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, External, IcebergTable, Namespace
from turnstile.catalog.core.paths import MAX_LEVELS
from turnstile.catalog.external import MAX_BYTES as OF_EXTERNAL
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.store.core.limits import RESPONSE_BYTES_MAX
from turnstile.store.core.rows import metadata_obj

WORST: Final = "\x01" * 32_000
UUID: Final = "00000000-0000-4000-8000-{:012d}"


def fill(services: CatalogServices, *things: Entity, below: tuple[str, ...] = ()) -> None:
    """Put these into catalog ``main`` in one change."""
    put = {(*below, str(getattr(thing, "name", ""))): thing for thing in things}
    services.committer.commit("main", lambda _: Edit("fill", put=put))


def namespaces(count: int) -> list[Namespace]:
    return [Namespace(f"n{n:03d}", UUID.format(n), 1, WORST) for n in range(count)]


def stored_before(world: FakeWorld, table_id: str, **said: Any) -> None:
    """Describe a table of catalog ``main`` as no change may any more: with a metaData action that
    has these members."""
    row = world.refs.rows[world.space.table(table_id)]
    partition = world.space.objs("main")
    obj = world.objs.get(partition, row["metadata"])
    assert obj is not None
    small = msgspec.json.decode(obj.payload, type=DeltaMetadata)
    payload = msgspec.json.encode(msgspec.structs.replace(small, metadata={**small.metadata, **said}))
    row["metadata"] = metadata_obj(table_id, small.version, payload)
    world.objs.put(msgspec.structs.replace(obj, id=row["metadata"], payload=payload))


def pages(http: Http, path: str, members: str, **query: Any) -> list[int]:
    """How many things each page of a listing has, all of them followed."""
    found = []
    token = ""
    while True:
        answer = http.get(path, **query, **({"page_token": token} if token else {}))
        assert answer.status == 200, answer.text[:300]
        found.append(len(answer.json[members]))
        token = answer.json.get("next_page_token") or ""
        if not token:
            return found


def test_listings_and_queries_end_their_pages_by_what_the_answer_takes(api: CatalogApi) -> None:
    fill(build(api.world, lake_root="file:///lake"), *namespaces(60))
    for path, members, query in (
        (NAMESPACES, "namespaces", {}),
        ("/v1/find", "found", {"query": "/main/*"}),
        (f"{B}/schemas", "schemas", {"catalog_name": "main"}),
    ):
        found = pages(api.http, path, members, **query)
        assert sum(found) == 61 and 15 < found[0] < 25, (path, found)


def test_long_names_count_as_often_as_they_are_sent(api: CatalogApi) -> None:
    above = tuple(f"{depth}".rjust(255, "x") for depth in range(MAX_LEVELS - 1))
    services = build(api.world, lake_root="file:///lake")
    services.namespaces.create("main", above)
    names = [f"{n}".rjust(255, "y") for n in range(900)]
    fill(services, *(Namespace(name, name[-36:], 1) for name in names), below=above)
    assert sum(pages(api.http, NAMESPACES, "namespaces", parent=".".join(above))) == 900
    assert sum(pages(api.http, f"{B}/schemas", "schemas", catalog_name="main")) == 910
    assert sum(pages(api.http, "/v1/find", "found", query="/main" + "/*" * MAX_LEVELS)) == 900


def test_catalogs_of_unity_end_their_pages_so_as_well(api: CatalogApi) -> None:
    services = build(api.world, lake_root="file:///lake")
    for n in range(30):
        services.catalogs.create(f"c{n:02d}", comment=WORST)
    found = pages(api.http, f"{B}/catalogs", "catalogs")
    assert sum(found) == 31 and 15 < found[0] < 25


@pytest.mark.parametrize("where", ["comment", "properties", "columns", "many columns"])
def test_the_largest_external_table_fits_alone_and_many_of_them_page_by_page(where: str) -> None:
    """Its columns are told as JSON in a string of the answer's, so the worst byte of them becomes
    nine."""
    unity = Unity()
    services = build(unity.world, lake_root="file:///lake")
    room = OF_EXTERNAL - 2_000
    column: dict[str, Any] = {"name": "c", "type": "string", "nullable": True, "metadata": {}}
    about = {
        "comment": External(),
        "properties": External(properties={"k": "\x01" * room}),
        "columns": External(columns=({**column, "metadata": {"comment": "\x01" * room}},)),
        "many columns": External(columns=tuple({**column, "name": f"c{n}"} for n in range(room // 45))),
    }[where]
    comment = "\x01" * room if where == "comment" else None
    for n in range(2):
        services.externals.register(
            "main", ("sales",), f"e{n}", location=f"s3://other/e{n}", format="delta", about=about, comment=comment
        )
    assert sum(pages(unity.cold, f"{B}/tables", "tables", catalog_name="main", schema_name="sales")) == 2
    assert unity.cold.get(f"{B}/tables/main.sales.e0").status == 200
    assert unity.hot.get(f"{B}/delta/v1/catalogs/main/schemas/sales/tables/e0").status == 200
    assert sum(pages(unity.cold, "/v1/find", "found", query="/main/sales/*")) == 2


def test_the_comment_of_a_table_has_a_limit(api: CatalogApi) -> None:
    id = api.stage("t")["table_id"]
    path = f"{DEFAULT}/tables"
    for comment in ("x" * 32_769, "é" * 16_385):
        answer = api.http.post(path, {"name": "t", "table_id": id, "comment": comment})
        error = answer.error
        assert (answer.status, error["type"], error["field"], error["limit"]) == (413, "TooLarge", "comment", 32_768)
        assert error["remedy"] and error["size"] > 32_768
    assert api.http.post(path, {"name": "t", "table_id": id, "comment": "\x01" * 32_768}).status == 201
    assert api.http.get(path + "/t/entry").json["comment"] == "\x01" * 32_768


def test_a_delta_table_whose_description_does_not_fit_is_refused_in_words(api: CatalogApi) -> None:
    """Stored before there was a limit, as its log has it."""
    stored_before(api.world, api.create("wide")["table_id"], configuration={"quotes": '"' * 1_600_000})
    commit = function("commit")
    commit.use_world(api.world)
    error = Http(commit.app).get(f"{DEFAULT}/tables/wide").error
    assert (error["type"], error["code"], error["limit"]) == ("TooLarge", 413, RESPONSE_BYTES_MAX)
    assert error["size"] > RESPONSE_BYTES_MAX and error["remedy"]
    assert api.http.get(f"{B}/tables/main.default.wide").status == 400
    assert Http(commit.app).get(f"{B}/delta/v1/catalogs/main/schemas/default/tables/wide").status == 400
    assert api.http.get(f"{DEFAULT}/tables").status == 200


@pytest.mark.parametrize(("columns", "properties"), [(20_000, {}), (10_000, {"quotes": '"' * 1_300_000})])
def test_a_table_too_wide_to_be_shown_does_not_hide_the_others_of_its_schema(
    api: CatalogApi, columns: int, properties: dict[str, str]
) -> None:
    for name in ("a", "b"):
        made = api.create(name)
    fields = [{"name": f"c{n}", "type": "string", "nullable": True, "metadata": {}} for n in range(columns)]
    schema = json.dumps({"type": "struct", "fields": fields})
    stored_before(api.world, made["table_id"], schemaString=schema, configuration=properties)
    api.create("c")
    found: list[dict[str, Any]] = []
    token = ""
    for _ in range(3):
        answer = api.http.get(
            f"{B}/tables", catalog_name="main", schema_name="default", **({"page_token": token} if token else {})
        )
        assert answer.status == 200, answer.text[:300]
        found += answer.json["tables"]
        token = answer.json["next_page_token"] or ""
        if not token:
            break
    assert [(one["name"], len(one["columns"])) for one in found] == [("a", 1), ("b", 0), ("c", 1)]
    assert bool(found[1]["properties"]) == (not properties)
    assert api.http.get(f"{B}/tables/main.default.b").status == 400


# -- Iceberg ----------------------------------------------------------------------------------------------------------


def test_metadata_is_refused_before_an_answer_with_it_would_be_too_large() -> None:
    """A property of quotes takes twice its bytes in a file and four times in the answer."""
    client = Iceberg()
    client.create("t1")
    quotes = '"' * 500_000
    statuses = []
    for n in range(4):
        before = client.heads()
        answer = client.commit(set_properties(**{f"p{n}": quotes}))
        statuses.append(answer.status)
        if answer.status != 200:
            assert "5500000" in refused(answer, 400, "BadRequestException")
            assert client.heads() == before
    assert statuses == [200, 200, 400, 400]
    assert len(client.load(T1)["metadata"]["properties"]) == 3, "and the default of a new table"


def test_properties_are_not_changed_if_their_names_fill_the_answer() -> None:
    client = Iceberg()
    before = client.heads()
    body = json.dumps({"removals": ['"' * 2_000_000], "updates": {"a": "1"}})
    answer = client.http.call("POST", f"{SALES}/properties", body=body)
    assert "8000" in refused(answer, 400, "BadRequestException")
    assert client.heads() == before


def test_a_file_to_be_registered_is_measured_as_an_answer_would_have_it() -> None:
    client = Iceberg()
    client.create("t1")
    assert client.commit(set_properties(**{f"p{n}": '"' * 600_000 for n in range(1)})).status == 200
    location = client.load(T1)["metadata-location"]
    folder, _, name = location.rpartition("/")
    store = client.world.storages
    raw, _ = store.open(folder).read(name) or (b"", None)
    grown = raw.replace(b'"p0":', b'"p1":"' + b'\\"' * 900_000 + b'","p0":')
    store.open("s3://other/x/metadata").put_if_absent("00001-a.metadata.json", grown)
    path = "s3://other/x/metadata/00001-a.metadata.json"
    answer = client.post(f"{SALES}/register", {"name": "t9", "metadata-location": path})
    assert "5500000" in refused(answer, 400, "BadRequestException")


def test_names_without_pages_are_all_shown_or_refused() -> None:
    client = Iceberg()
    services = client.services.open_catalog
    above = tuple(f"{depth}".rjust(255, "x") for depth in range(MAX_LEVELS - 1))
    services.namespaces.create("main", above)
    names = [f"{n}".rjust(255, "x") for n in range(2_500)]
    fill(services, *(IcebergTable(name, name[-36:], "s3://b/t", "s3://b/t/m", 1) for name in names), below=above)
    path = f"{MAIN}/namespaces/{'%1F'.join(above)}/tables"
    assert "pageToken" in refused(client.get(path), 400, "BadRequestException")
    found = 0
    token = ""
    for _ in range(3):
        answer = client.get(path, pageToken=token)
        found = found + len(answer.json["identifiers"])
        token = answer.json["next-page-token"]
    assert (found, token) == (2_500, None)
    assert client.get(f"{MAIN}/namespaces").status == 200

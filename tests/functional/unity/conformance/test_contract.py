"""The contract of new tables, clause by clause: protocol, properties, domains, schema, UniForm,
location."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.functions import Answer
from tests.support.unity import COLUMNS, FIXED, READER, SCHEMA, T1, B, Unity, api_protocol, refused, refused_old

INVALID = "InvalidParameterValueException"
ICEBERG = {"delta.universalFormat.enabledFormats": "iceberg"}


@pytest.fixture
def unity() -> Unity:
    return Unity()


def create(unity: Unity, change: dict[str, Any], *features: str, **config: str) -> Answer:
    """The request that would succeed, changed; ``features`` and ``config`` are in version 0 too."""
    staged = unity.stage()
    unity.write_zero(staged, *features, **config)
    return unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t1", *features, **config) | change)


def without(feature: str, *lists: str) -> dict[str, Any]:
    made = api_protocol()
    for name in lists:
        made[name] = [one for one in made[name] if one != feature]
    return {"protocol": made}


# -- protocol ---------------------------------------------------------------------------------------------------------


@covers(createTable=400)
@pytest.mark.parametrize("feature", READER)
@pytest.mark.parametrize("lists", [("reader-features",), ("writer-features",), ("reader-features", "writer-features")])
def test_each_required_feature_is_in_both_lists(unity: Unity, feature: str, lists: tuple[str, ...]) -> None:
    refused(create(unity, without(feature, *lists)), 400, INVALID)


@covers(createTable=400)
def test_in_commit_timestamps_are_a_writer_feature(unity: Unity) -> None:
    refused(create(unity, without("inCommitTimestamp", "writer-features")), 400, INVALID)


@covers(createTable=400)
@pytest.mark.parametrize(("reader", "writer"), [(2, 7), (3, 6), (1, 2), (-1, 7)])
def test_the_protocol_has_table_features(unity: Unity, reader: int, writer: int) -> None:
    versions = {"min-reader-version": reader, "min-writer-version": writer}
    refused(create(unity, {"protocol": api_protocol() | versions}), 400, INVALID)


@covers(createTable=400)
def test_reader_features_are_writer_features_too(unity: Unity) -> None:
    made = api_protocol()
    made["reader-features"] = [*made["reader-features"], "columnMapping"]
    refused(create(unity, {"protocol": made}), 400, INVALID)


@covers(createTable=400)
def test_i9_the_protocol_is_that_of_version_0(unity: Unity) -> None:
    refused(create(unity, {"protocol": api_protocol("rowTracking", "domainMetadata")}), 400, INVALID)


# -- properties -------------------------------------------------------------------------------------------------------


@covers(createTable=400)
@pytest.mark.parametrize("key", [*FIXED, "io.unitycatalog.tableId"])
@pytest.mark.parametrize("value", [None, "", "false", "classic"])
def test_each_fixed_property_has_its_value(unity: Unity, key: str, value: str | None) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    body["properties"].pop(key)
    if value is not None:
        body["properties"][key] = value
    assert refused(unity.post(f"{SCHEMA}/tables", body), 400, INVALID)["message"].startswith(f"property '{key}'")


@covers(createTable=400)
def test_i9_a_property_of_delta_is_in_version_0(unity: Unity) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    body["properties"]["delta.appendOnly"] = "true"
    refused(unity.post(f"{SCHEMA}/tables", body), 400, INVALID)


@covers(createTable=200)
def test_other_properties_are_kept_and_derived_ones_are_computed(unity: Unity) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    body["properties"] |= {"mine": "1", "": "empty", "delta.minReaderVersion": "9", "delta.feature.x": "supported"}
    found = unity.post(f"{SCHEMA}/tables", body).json["metadata"]["properties"]
    assert (found["mine"], found[""], found["delta.minReaderVersion"]) == ("1", "empty", "3")
    assert "delta.feature.x" not in found
    assert {key: found[key] for key in FIXED} == FIXED


@covers(createTable=200)
@pytest.mark.parametrize("value", [None, "_row-id-col-x"])
def test_what_the_server_only_suggests_may_be_left_out_or_made_up(unity: Unity, value: str | None) -> None:
    chosen = {} if value is None else {"delta.rowTracking.materializedRowIdColumnName": value}
    assert create(unity, {}, **chosen).status == 200


# -- domains ----------------------------------------------------------------------------------------------------------


@covers(createTable=400)
@pytest.mark.parametrize(
    ("domain", "feature"),
    [({"delta.clustering": {"clusteringColumns": [["id"]]}}, "clustering"),
     ({"delta.rowTracking": {"rowIdHighWaterMark": 1}}, "rowTracking")],
)  # fmt: skip
def test_a_domain_needs_its_feature(unity: Unity, domain: dict[str, Any], feature: str) -> None:
    message = refused(create(unity, {"domain-metadata": domain}), 400, INVALID)["message"]
    assert f"'{feature}'" in message


@covers(createTable=400)
@pytest.mark.parametrize("columns", ["id", ["id"], [[1]], {"id": 1}, [["nope"]]])
def test_i9_clustering_is_a_list_of_paths_and_that_of_version_0(unity: Unity, columns: Any) -> None:
    domain = {"delta.clustering": {"clusteringColumns": columns}}
    refused(create(unity, {"domain-metadata": domain}, "clustering", "domainMetadata"), 400, INVALID)


# -- schema -----------------------------------------------------------------------------------------------------------


def struct(*fields: Any) -> dict[str, Any]:
    return {"columns": {"type": "struct", "fields": list(fields)}}


def field(name: Any = "id", type: Any = "long", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}, **more}


@covers(createTable=400)
@pytest.mark.parametrize(
    "change",
    [
        {"columns": None},
        {"columns": []},
        {"columns": {"type": "struct"}},
        {"columns": {"fields": [field()]}},
        struct(),
        struct("id"),
        struct(field(name="")),
        struct(field(name=7)),
        struct(field(), field(name="ID")),
        struct(field(type=None)),
        struct(field(type="DROP TABLE")),
        struct(field(nullable="yes")),
        struct(field(metadata=[])),
        struct(field(type={"type": "array", "element-type": "long"})),
        struct(field(type={"type": "array", "elementType": "long", "containsNull": True})),
        struct(field(type={"type": "map", "key-type": "string", "value-type": "long"})),
        struct(field(type={"type": "struct", "fields": [field("a"), field("A")]})),
        {"partition-columns": ["nope"]},
        {"partition-columns": ["id", "ID"]},
        {"partition-columns": "id"},
    ],
)
def test_a_schema_that_cannot_be(unity: Unity, change: dict[str, Any]) -> None:
    refused(create(unity, change), 400, INVALID)


# -- UniForm ----------------------------------------------------------------------------------------------------------


def uniform(location: str, version: int = 0, **more: Any) -> dict[str, Any]:
    said = {"metadata-location": location, "converted-delta-version": version, "converted-delta-timestamp": 1, **more}
    return {"uniform": {"iceberg": said}}


@covers(createTable=200)
@pytest.mark.parametrize("version", [0, 1])
def test_uniform_of_a_new_table_is_kept(unity: Unity, version: int) -> None:
    staged = unity.stage()
    unity.write_zero(staged, **ICEBERG)
    said = uniform(f"{staged['location']}/metadata/v1.json", version)
    answer = unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t1", **ICEBERG) | said)
    assert answer.json["uniform"] == said["uniform"]
    assert unity.get(T1).json == answer.json


@covers(createTable=400)
@pytest.mark.parametrize(
    "change",
    [
        {},
        uniform("LOCATION/metadata/v1.json", 2),
        uniform("LOCATION/metadata/v1.json", **{"base-converted-delta-version": 0}),
        uniform("LOCATION"),
        uniform("LOCATION/../other/v1.json"),
        uniform("LOCATION2/v1.json"),
        uniform("s3://elsewhere/v1.json"),
        uniform("LOCATION/" + "x" * 65_535),
    ],
)
def test_uniform_of_a_new_table_fits_the_table(unity: Unity, change: dict[str, Any]) -> None:
    staged = unity.stage()
    unity.write_zero(staged, **ICEBERG)
    if change:
        said = change["uniform"]["iceberg"]
        said = said | {"metadata-location": said["metadata-location"].replace("LOCATION", staged["location"])}
        change = {"uniform": {"iceberg": said}}
    refused(unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t1", **ICEBERG) | change), 400, INVALID)


# -- location and name ------------------------------------------------------------------------------------------------


@covers(createTable=200)
@pytest.mark.parametrize("form", ["{}/", "{}///"])
def test_a_location_may_be_written_otherwise(unity: Unity, form: str) -> None:
    staged = unity.stage()
    unity.write_zero(staged)
    body = unity.create_body(staged)
    body["location"] = form.format(body["location"].replace("file:///", "file:/"))
    assert unity.post(f"{SCHEMA}/tables", body).json["metadata"]["location"] == staged["location"]


@covers(createTable=404)
@pytest.mark.parametrize("location", ["file:///lake/main", "s3://other/x", "file:///lake/main/sales/none"])
def test_a_managed_table_is_where_it_was_staged(unity: Unity, location: str) -> None:
    refused(create(unity, {"location": location}), 404, "NotFoundException")


@covers(createTable=400)
@pytest.mark.parametrize("change", [{"location": ""}, {"location": "x"}, {"name": ""}, {"name": "a.b"}, {"name": " "}])
def test_names_and_locations_that_cannot_be(unity: Unity, change: dict[str, Any]) -> None:
    refused(create(unity, change), 400, INVALID)


@covers(createTable=400)
@pytest.mark.parametrize("location", ["s3://bucket", "file:///lake/main", "file:///lake/main/sales/x", "x", ""])
def test_i10_an_external_table_is_neither_a_bucket_nor_in_managed_storage(unity: Unity, location: str) -> None:
    asked = {"name": "e1", "location": location, "table-type": "EXTERNAL", "columns": COLUMNS, "properties": {},
             "protocol": {"min-reader-version": 1, "min-writer-version": 2}, "last-commit-timestamp-ms": 7}  # fmt: skip
    refused(unity.post(f"{SCHEMA}/tables", asked), 400, INVALID)
    assert unity.get(f"{B}/tables", catalog_name="main", schema_name="sales").json["tables"] == []


@covers(createTable=400, updateTable=400)
def test_i12_nothing_is_created_that_some_readers_are_to_see_less_of_than_its_files(unity: Unity) -> None:
    """Who may read a table gets its files, so neither could be enforced."""
    masked = {**COLUMNS, "fields": [{**COLUMNS["fields"][0], "mask": {"function_name": "f"}}]}
    for change in ({"row-filter": {"function_name": "f"}}, {"columns": masked}):
        answer = create(unity, change)
        refused(answer, 400, INVALID)
        assert "cannot be enforced" in answer.text
    unity.create()
    refused(unity.update({"action": "set-columns", "columns": masked}), 400, INVALID)
    older = {
        "name": "old",
        "catalog_name": "main",
        "schema_name": "sales",
        "table_type": "EXTERNAL",
        "storage_location": "s3://other/old",
        "data_source_format": "DELTA",
    }
    for change in (
        {"row_filter": {"function_name": "f"}},
        {"columns": [{"name": "id", "type_name": "LONG", "mask": {"function_name": "f"}}]},
    ):
        refused_old(unity.post(f"{B}/tables", {**older, **change}), 400, "INVALID_ARGUMENT")

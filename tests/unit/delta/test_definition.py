"""Protocol and metadata of a catalog-managed table, each by itself and both together (I2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from turnstile.delta.core.definition import check_definition, check_metadata, check_protocol, max_column_id
from turnstile.store.core.errors import InvalidCommit

NEEDED = ["catalogManaged", "inCommitTimestamp"]


def protocol(*features: str, **members: Any) -> dict[str, Any]:
    """A protocol with these features of writers; ``members`` take the place of its own."""
    return {**delta.protocol(*features)["protocol"], **members}


def metadata(*fields: Any, partitions: Any = (), **configuration: str) -> dict[str, Any]:
    columns = list(fields) or [column("id"), column("p", "string")]
    schema = json.dumps({"type": "struct", "fields": columns})
    return {**delta.metadata(**configuration)["metaData"], "schemaString": schema, "partitionColumns": list(partitions)}


def column(name: str, type: Any = "long", **members: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": members}


def mapped(name: str, id: int) -> dict[str, Any]:
    return column(name, **{"delta.columnMapping.id": id, "delta.columnMapping.physicalName": f"col-{id}"})


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (protocol(minReaderVersion=2), "protocol.minReaderVersion"),
        (protocol(minReaderVersion=4), "protocol.minReaderVersion"),
        (protocol(minWriterVersion=6), "protocol.minWriterVersion"),
        (protocol(readerFeatures=None), "protocol.readerFeatures"),
        (protocol(writerFeatures=["inCommitTimestamp"]), "protocol.writerFeatures"),
        (protocol(writerFeatures=["catalogManaged"]), "protocol.writerFeatures"),
        (protocol(readerFeatures=["catalogManaged", "columnMapping"]), "protocol.writerFeatures"),
        (protocol(readerFeatures=["catalogManaged", "inCommitTimestamp"]), "protocol.readerFeatures"),
        (protocol(writerFeatures=[*NEEDED, "rowTracking"]), "protocol.writerFeatures"),
        (protocol(writerFeatures=[*NEEDED, "clustering"]), "protocol.writerFeatures"),
        (protocol(writerFeatures=[*NEEDED, "variantShredding", "domainMetadata"]), "protocol.writerFeatures"),
    ],
)
def test_i2_a_protocol_by_which_readers_fail_is_not_ratified(made: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        check_protocol(made)
    assert refused.value.field == field


@pytest.mark.parametrize("features", [(), ("rowTracking", "domainMetadata"), ("somethingNew",)])
def test_a_protocol_may_have_features_that_others_do_not_need(features: tuple[str, ...]) -> None:
    made = protocol(*features)
    check_protocol(made)
    assert set(features) <= set(made["writerFeatures"])


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (metadata(**{"delta.enableInCommitTimestamps": "false"}), "metaData.configuration"),
        (metadata(**{"delta.appendOnly": "yes"}), "metaData.configuration"),
        (metadata(**{"delta.checkpointPolicy": "v3"}), "metaData.configuration"),
        (metadata(**{"delta.columnMapping.mode": "path"}), "metaData.configuration"),
        (metadata(**{"delta.checkpointInterval": "ten"}), "metaData.configuration"),
        (metadata(**{"delta.checkpointInterval": ""}), "metaData.configuration"),
        (metadata(partitions=["q"]), "metaData.partitionColumns"),
        (metadata(partitions=["p", "p"]), "metaData.partitionColumns"),
        (metadata(column("p", "variant"), partitions=["p"]), "metaData.partitionColumns"),
        (
            metadata(column("p", {"type": "struct", "fields": []}), partitions=["p"]),
            "metaData.partitionColumns",
        ),
        (metadata(column("p", "quux")), "metaData.schemaString"),
    ],
)
def test_i2_metadata_on_which_readers_fail_are_not_ratified(made: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        check_metadata(made)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.appendOnly": "TRUE", "delta.enableChangeDataFeed": "false"},
        {"delta.checkpointPolicy": "V2", "delta.columnMapping.mode": "None"},
        {"delta.checkpointInterval": "-10", "delta.randomPrefixLength": "+2"},
        {"delta.somethingNew": "yes", "mine": ""},
    ],
)
def test_properties_are_judged_where_readers_fail_on_them(configuration: dict[str, str]) -> None:
    check_metadata(metadata(partitions=["p"], **configuration))


MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
TRACKED = {
    "delta.enableRowTracking": "TRUE",
    "delta.rowTracking.materializedRowIdColumnName": "_i",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_v",
}


def without(configuration: dict[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in configuration.items() if other != name}


@pytest.mark.parametrize(
    ("features", "made", "field"),
    [
        ((), metadata(mapped("a", 1), **MAPPED), "protocol.writerFeatures"),
        ((), metadata(**TRACKED), "protocol.writerFeatures"),
        ((), metadata(**{"delta.constraints.c": "id > 0"}), "protocol.writerFeatures"),
        ((), metadata(column("a", "timestamp_ntz")), "protocol.writerFeatures"),
        (("columnMapping",), metadata(column("a"), **MAPPED), "metaData.schemaString"),
        (("columnMapping",), metadata(mapped("a", 3), **MAPPED), "metaData.schemaString"),
        (
            ("columnMapping",),
            metadata(mapped("a", 1), **without(MAPPED, "delta.columnMapping.maxColumnId")),
            "metaData.schemaString",
        ),
        *((("rowTracking",), metadata(**without(TRACKED, name)), "metaData.configuration") for name in [*TRACKED][1:]),
    ],
)
def test_i2_metadata_that_need_more_than_the_protocol_has_are_not_ratified(
    features: tuple[str, ...], made: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidCommit) as refused:
        check_definition(protocol(*features), made)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("features", "made"),
    [
        ((), metadata(column("a"), **{"delta.columnMapping.mode": "none", "delta.enableRowTracking": "false"})),
        (("columnMapping",), metadata(mapped("a", 1), mapped("b", 2), **MAPPED)),
        (("rowTracking",), metadata(**TRACKED)),
        (("checkConstraints",), metadata(**{"delta.constraints.c": "id > 0"})),
        (("timestampNtz",), metadata(column("a", "timestamp_ntz"))),
        (("variantType-preview",), metadata(column("a", "variant"))),
    ],
)
def test_metadata_may_use_what_the_protocol_has(features: tuple[str, ...], made: dict[str, Any]) -> None:
    check_definition(protocol(*features), made)


FLAGS = {
    "delta.enableChangeDataFeed": "changeDataFeed", "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableIcebergCompatV1": "icebergCompatV1", "delta.enableIcebergCompatV2": "icebergCompatV2",
    "delta.enableIcebergCompatV3": "icebergCompatV3",
}  # fmt: skip


@pytest.mark.parametrize(("flag", "feature"), FLAGS.items())
def test_i2_a_property_without_the_feature_is_not_ratified_for_delta_opens_no_such_table(
    flag: str, feature: str
) -> None:
    with pytest.raises(InvalidCommit, match=f"{flag} needs the table feature.*{feature}"):
        check_definition(protocol(), metadata(**{flag: "True"}))
    check_definition(protocol(), metadata(**{flag: "false"}))
    check_definition(protocol(feature), metadata(**{flag: "true"}))


def test_i2_append_only_and_checkpoints_of_the_v2_spec_need_their_features() -> None:
    bare = {**protocol(), "writerFeatures": ["catalogManaged", "inCommitTimestamp"]}
    with pytest.raises(InvalidCommit, match="appendOnly"):
        check_definition(bare, metadata(**{"delta.appendOnly": "true"}))
    with pytest.raises(InvalidCommit, match="v2Checkpoint"):
        check_definition(protocol(), metadata(**{"delta.checkpointPolicy": "V2"}))
    check_definition(protocol("v2Checkpoint"), metadata(**{"delta.checkpointPolicy": "v2", "delta.appendOnly": "true"}))
    check_definition(protocol("typeWidening-preview"), metadata(**{"delta.enableTypeWidening": "true"}))


def test_the_greatest_id_of_a_column_is_of_nested_ones_too() -> None:
    inner = {"type": "struct", "fields": [mapped("b", 7)]}
    fields = [mapped("a", 3), {**mapped("s", 4), "type": inner}]
    assert max_column_id(fields) == 7
    assert max_column_id([column("a")]) is None

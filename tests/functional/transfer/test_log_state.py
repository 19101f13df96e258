"""Reading a table's state from its log: from version 0, a checksum, a checkpoint; and when none of
them can be."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from tests.support.catalog import fakes, fresh
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.legacy import PLACE, Legacy, legacy_info, legacy_metadata, legacy_protocol
from turnstile.delta.log.state import LogState, read_state
from turnstile.store.core.errors import UnsupportedTable

FEATURES = legacy_protocol(3, 7, readerFeatures=[], writerFeatures=["domainMetadata"])
OLD = legacy_metadata(p="old")
NEW = legacy_metadata(p="new")


def state(legacy: Legacy) -> LogState:
    return read_state(legacy.storage, PLACE)


def domain(name: str, configuration: str = "{}", removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def test_the_newest_protocol_and_metadata_count_and_domains_add_up() -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD).append()
    legacy.write(legacy_info(), FEATURES, domain("a"), domain("b"))
    legacy.write(legacy_info(), NEW, domain("a", '{"x":1}'), domain("b", removed=True))
    legacy.append(txnId="last")
    log = state(legacy)
    assert log.version == 4
    assert log.protocol == FEATURES["protocol"]
    assert log.metadata == NEW["metaData"]
    assert log.domains == {"a": '{"x":1}'}
    assert (log.info["txnId"], log.commits, log.source) == ("last", 5, "commits since version 0")


def test_other_files_of_the_log_do_not_disturb() -> None:
    legacy = Legacy(fresh()).created()
    for name in (
        "_last_checkpoint",
        "_staged_commits/00000000000000000001.x.json",
        "00000000000000000009.json.tmp",
        "x",
    ):
        legacy.storage.put_if_absent("_delta_log/" + name, b"?")
    assert state(legacy).version == 0


def crc(txn: str | None, **more: Any) -> dict[str, Any]:
    checksum = {
        "protocol": FEATURES["protocol"],
        "metadata": NEW["metaData"],
        "domainMetadata": [domain("a")["domainMetadata"]],
    }
    return {**checksum, **({"txnId": txn} if txn else {}), **more}


def test_a_checksum_saves_reading_the_history() -> None:
    services = fresh()
    legacy = Legacy(services).created(FEATURES, NEW)
    legacy.write(legacy_info(), domain("a"))
    legacy.append(50, txnId="x").append(txnId="last")
    legacy.checksum(52, **crc("last"))
    fakes(services).storages.requests.clear()
    log = state(legacy)
    assert (log.version, log.source, log.domains) == (52, "checksum of version 52", {"a": "{}"})
    assert fakes(services).storages.requests == ["list", "read", "read"]


def test_a_checksum_is_a_start_when_everything_before_was_cleaned_up() -> None:
    legacy = Legacy(fresh()).created(FEATURES, OLD)
    legacy.write(legacy_info(txnId="one"), domain("a"))
    legacy.checksum(1, **crc("one"))
    legacy.write(legacy_info(), domain("b"))
    legacy.append()
    legacy.clean_up_to(1)
    log = state(legacy)
    assert (log.version, log.metadata, sorted(log.domains)) == (3, NEW["metaData"], ["a", "b"])


@pytest.mark.parametrize(
    "checksum",
    [
        crc("another"),  # left behind by a commit that lost
        crc(None),
        crc("last", protocol=None),
        crc("last", metadata="x"),
        crc("last", metadata={**OLD["metaData"], "partitionColumns": [{}]}),
        crc("last", protocol={**FEATURES["protocol"], "writerFeatures": 3}),
        crc("last", domainMetadata=[None]),
        crc("last", domainMetadata=[{"domain": "a"}]),
        {key: value for key, value in crc("last").items() if key != "domainMetadata"},  # incomplete where it matters
    ],
)
def test_a_checksum_that_may_be_anothers_or_is_incomplete_is_not_trusted(checksum: dict[str, Any]) -> None:
    legacy = Legacy(fresh()).created(FEATURES, OLD)
    legacy.append(txnId="last")
    legacy.checksum(1, **checksum)
    log = state(legacy)
    assert (log.metadata, log.domains, log.source) == (OLD["metaData"], {}, "commits since version 0")


def test_a_checksum_of_a_version_that_is_not_published_is_passed_over() -> None:
    """The protocol allows it (tests/PROTOCOL.md, rule 32)."""
    legacy = Legacy(fresh()).created(FEATURES, OLD)
    legacy.append(txnId="last")
    legacy.checksum(2, **crc("next"))
    log = state(legacy)
    assert (log.version, log.metadata, log.source) == (1, OLD["metaData"], "commits since version 0")


def test_a_checksum_that_is_no_json_is_passed_over() -> None:
    legacy = Legacy(fresh()).created()
    legacy.storage.put_if_absent("_delta_log/00000000000000000000.crc", b"\xff{")
    assert state(legacy).version == 0


def test_a_json_checkpoint_is_a_start() -> None:
    """Delta protocol, "V2 Checkpoints": the manifest may be JSON."""
    legacy = Legacy(fresh()).created(FEATURES, NEW).append(5).clean_up_to(3)
    actions = [FEATURES, NEW, domain("a"), domain("gone", removed=True), {"checkpointMetadata": {"version": 3}}]
    legacy.checkpoint(3, delta.lines(*actions), "checkpoint.5c3d9a54-4f0c-4b1a-8a51-8f4f3f1f2c11.json")
    log = state(legacy)
    assert (log.version, log.domains, log.source) == (5, {"a": "{}"}, "checkpoint of version 3")


TEXTS = pa.map_(pa.string(), pa.string())
CHECKPOINT = pa.schema(
    {
        "add": pa.struct({"path": pa.string(), "size": pa.int64()}),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    }
)
"""The columns of a checkpoint that matter here (Delta protocol, "Checkpoint Schema")."""


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """A real checkpoint file of these actions."""
    output = pa.BufferOutputStream()
    write_table(pa.Table.from_pylist(rows, CHECKPOINT), output, compression="none")
    return bytes(output.getvalue().to_pybytes())


def test_a_parquet_checkpoint_is_a_start_where_pyarrow_is() -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), NEW).append(5).clean_up_to(3)
    legacy.checkpoint(3, parquet([legacy_protocol(), NEW, delta.add("f")]))
    log = state(legacy)
    assert (log.protocol, log.metadata) == (legacy_protocol()["protocol"], NEW["metaData"])


def test_a_checkpoint_in_parts_needs_all_of_them() -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), NEW).append(5).clean_up_to(3)
    legacy.checkpoint(3, parquet([legacy_protocol()]), "checkpoint.0000000001.0000000002.parquet")
    with pytest.raises(UnsupportedTable):
        state(legacy)
    legacy.checkpoint(3, parquet([NEW]), "checkpoint.0000000002.0000000002.parquet")
    assert state(legacy).metadata == NEW["metaData"]


def test_only_a_parquet_checkpoint_and_no_pyarrow_is_refused_with_two_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    legacy = Legacy(fresh()).created().append(5).clean_up_to(3)
    legacy.checkpoint(3, b"PAR1")
    with pytest.raises(UnsupportedTable, match="Parquet checkpoint") as refused:
        state(legacy)
    assert "checksum" in str(refused.value.remedy) and "pyarrow" in str(refused.value.remedy)


def test_a_gap_after_the_checkpoint_is_a_broken_log() -> None:
    legacy = Legacy(fresh()).created(FEATURES, NEW).append(6).clean_up_to(3)
    legacy.checkpoint(3, delta.lines(FEATURES, NEW), "checkpoint.x.json")
    legacy.storage.delete("_delta_log/00000000000000000005.json")
    with pytest.raises(UnsupportedTable):
        state(legacy)


# -- large files -------------------------------------------------------------------------------------------------------

PIECE = 4_096


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each request read of a file; pieces are small."""
    sizes: list[int] = []
    read = FakeStorage.read

    def counted(self: FakeStorage, path: str, limit: int | None = None, offset: int = 0) -> Any:
        file = read(self, path, limit, offset)
        sizes.append(0 if file is None else len(file[0]))
        return file

    monkeypatch.setattr(FakeStorage, "read", counted)
    for module in ("turnstile.delta.log.files", "turnstile.delta.log.parquet", "turnstile.delta.commits"):
        monkeypatch.setattr(f"{module}.PIECE_BYTES", PIECE)
    return sizes


def test_a_commit_of_any_size_is_read_piece_by_piece(read_bytes: list[int]) -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD)
    files = [delta.add(f"{number}.parquet") for number in range(200)]
    legacy.write(legacy_info(txnId="large"), *files, NEW, *files, domain("a"), FEATURES)
    log = state(legacy)
    assert (log.metadata, log.protocol, log.info["txnId"]) == (NEW["metaData"], FEATURES["protocol"], "large")
    assert log.domains == {"a": "{}"}
    assert max(read_bytes) == PIECE and len(read_bytes) > 10


def test_a_line_that_is_too_long_to_be_held_is_reported(read_bytes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.delta.log.lines.LINE_BYTES", 3 * PIECE)
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD)
    legacy.write(legacy_info(notes="x" * 20_000))
    with pytest.raises(UnsupportedTable, match="version 1 has a line of more than 12288 bytes"):
        state(legacy)
    assert sum(read_bytes) <= 6 * PIECE, "and not read to its end"


def test_a_parquet_checkpoint_is_read_in_ranges(read_bytes: list[int]) -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD).append(3).clean_up_to(2)
    files = [delta.add(f"{number:08d}-{number * 7919 % 10_007:08d}.parquet") for number in range(20_000)]
    raw = parquet([*files, FEATURES, NEW, domain("a")])
    legacy.checkpoint(2, raw)
    log = state(legacy)
    assert log.source == "checkpoint of version 2"
    assert (log.metadata, log.domains) == (NEW["metaData"], {"a": "{}"})
    assert max(read_bytes) <= PIECE and sum(read_bytes) < len(raw) // 4, "files are not read"


# -- damage ------------------------------------------------------------------------------------------------------------


def written_checkpoint(legacy: Legacy, version: int, **configuration: str) -> bytes:
    """A checkpoint with protocol and metadata, as Parquet."""
    rows = [{"protocol": legacy_protocol()["protocol"]}, {"metaData": legacy_metadata(**configuration)["metaData"]}]
    rows[1]["metaData"]["configuration"] = list(configuration.items())
    del rows[1]["metaData"]["format"]["options"]
    sink = pa.BufferOutputStream()
    configured = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string())])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
            ("createdTime", pa.int64()),
        ]
    )
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    schema = pa.schema([("protocol", protocol), ("metaData", configured)])
    write_table(pa.Table.from_pylist(rows, schema), sink)
    content: bytes = sink.getvalue().to_pybytes()
    legacy.checkpoint(version, content)
    return content


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage"])
@pytest.mark.parametrize("older", [True, False])
def test_i24_a_newest_checkpoint_that_is_damaged_is_passed_over(damage: str, older: bool) -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD).append(9)
    if older:
        written_checkpoint(legacy, 4, p="old")
    content = written_checkpoint(legacy, 8, p="old")
    path = f"_delta_log/{8:020d}.checkpoint.parquet"
    legacy.storage.replace(path, {"empty": b"", "cut": content[: len(content) // 2], "garbage": b"PAR1" * 99}[damage])
    if older:
        legacy.clean_up_to(4)
    assert state(legacy).version == 9
    assert state(legacy).source == ("checkpoint of version 4" if older else "commits since version 0")


def test_i24_a_gap_after_the_newest_checkpoint_is_named_and_not_pyarrow() -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD).append(9)
    written_checkpoint(legacy, 4, p="old")
    legacy.storage.delete("_delta_log/00000000000000000006.json")
    with pytest.raises(UnsupportedTable, match="version 6 is missing") as refused:
        state(legacy)
    assert "backup" in (refused.value.remedy or "") and "pyarrow" not in str(refused.value.remedy)


def test_i24_where_no_checkpoint_can_be_read_the_newest_is_named() -> None:
    legacy = Legacy(fresh()).created(legacy_protocol(), OLD).append(9).clean_up_to(5)
    legacy.checkpoint(5, b"PAR1 is not all")
    with pytest.raises(UnsupportedTable, match=r"00000000000000000005\.checkpoint\.parquet"):
        state(legacy)


def test_i24_a_checksum_whose_schema_is_no_schema_is_no_start() -> None:
    legacy = Legacy(fresh()).created(FEATURES, NEW).append(txnId="last")
    wrong = {**NEW["metaData"], "schemaString": "]" * 64}
    legacy.checksum(1, **crc("last", metadata=wrong))
    assert state(legacy).metadata == NEW["metaData"]

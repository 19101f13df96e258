"""Version 0, as the client that makes a table writes it: judged before there is a table."""

from __future__ import annotations

import pytest

from tests.support.catalog import MAIN, fresh, head_of, refused, register
from tests.support.fakes import delta
from turnstile.catalog.create import first_row_hwm, read_version_zero
from turnstile.delta.core.head import ROWS_UNREAD
from turnstile.store.core.errors import InvalidCommit, NotFound
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path


def test_a_table_without_version_0_is_not_registered() -> None:
    services = fresh()
    made = services.staging.create(*MAIN, "t")
    error = refused(NotFound, services, lambda: register(services, made.table_id))
    assert error.type == "NoSuchCommit"
    assert "version 0" in str(error.remedy)


def _contents() -> dict[str, tuple[bytes, str]]:
    protocol = delta.protocol()
    metadata = delta.metadata()
    info = delta.info("x", 1_770_000_000_000)

    def changed(action: dict[str, dict[str, object]], **members: object) -> dict[str, dict[str, object]]:
        ((name, body),) = action.items()
        return {name: {**body, **members}}

    return {
        "empty": (b"", "content"),
        "no protocol": (delta.lines(info, metadata), "protocol"),
        "no metadata": (delta.lines(info, protocol), "metaData"),
        "no commitInfo": (delta.lines(protocol, metadata), "commitInfo"),
        "no txnId": (delta.lines(changed(info, txnId=None), protocol, metadata), "commitInfo.txnId"),
        "no timestamp": (delta.lines(changed(info, inCommitTimestamp=None), protocol, metadata),
                         "commitInfo.inCommitTimestamp"),
        "legacy": (delta.lines(info, changed(protocol, minReaderVersion=1, minWriterVersion=2), metadata),
                   "protocol.minReaderVersion"),
        "not managed": (delta.lines(info, changed(protocol, readerFeatures=[]), metadata), "protocol.readerFeatures"),
        "no timestamps": (delta.lines(info, changed(protocol, writerFeatures=["catalogManaged"]), metadata),
                          "protocol.writerFeatures"),
        "timestamps off": (delta.lines(info, protocol, delta.metadata(**{"delta.enableInCommitTimestamps": "false"})),
                           "metaData.configuration"),
        "another uuid": (
            delta.lines(info, protocol,
                        delta.metadata(**{"io.unitycatalog.tableId": "11111111-1111-4111-8111-111111111111"})),
            "metaData.configuration.io.unitycatalog.tableId",
        ),
        "ahead": (delta.lines(delta.info("x", 9_999_999_999_999), protocol, metadata), "commitInfo.inCommitTimestamp"),
    }  # fmt: skip


@pytest.mark.parametrize("case", sorted(_contents()))
def test_version_0_must_keep_the_contract_and_the_member_is_named(case: str) -> None:
    content, field = _contents()[case]
    services = fresh()
    made = services.staging.create(*MAIN, "t")
    services.world.storages.open(made.location).put_if_absent(published_path(0), content)
    error = refused(InvalidCommit, services, lambda: register(services, made.table_id))
    assert error.field == field


@pytest.mark.parametrize(
    ("feature", "hwm", "expected"), [("", None, None), ("rowTracking", None, -1), ("rowTracking", 41, 41)]
)
def test_the_head_starts_with_the_row_ids_that_version_0_assigned(
    feature: str, hwm: int | None, expected: int | None
) -> None:
    """I2: row ids are never given out twice."""
    services = fresh()
    made = services.staging.create(*MAIN, "t")
    now = services.world.clock.now_ms()
    actions = [delta.info("x", now), delta.protocol(*filter(None, [feature])), delta.metadata()]
    if hwm is not None:
        domain = {"domain": "delta.rowTracking", "configuration": f'{{"rowIdHighWaterMark":{hwm}}}', "removed": False}
        actions += [{"domainMetadata": domain}, delta.add("f", 42, baseRowId=0, defaultRowCommitVersion=0)]
    services.world.storages.open(made.location).put_if_absent(published_path(0), delta.lines(*actions))
    register(services, made.table_id)
    head = head_of(services.world, made.table_id)
    assert (head.row_hwm, head.tail_hwm) == (expected, expected)


def test_row_ids_of_a_version_0_too_large_to_read_are_unknown_not_guessed() -> None:
    """I2."""
    services = fresh()
    made = services.staging.create(*MAIN, "t")
    content = delta.version_zero("x", 1_770_000_000_000, "rowTracking") + delta.lines(delta.add("f", 42))
    services.world.storages.open(made.location).put_if_absent(published_path(0), content)
    zero = read_version_zero(services.world, Limits(staged_bytes=len(content) - 10), made.location, made.table_id)
    assert first_row_hwm(zero) == ROWS_UNREAD

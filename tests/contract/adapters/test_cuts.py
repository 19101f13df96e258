"""Faults of a read of several rows at one moment (I8): retries, and the error at the deadline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store.clients import Scripted, cancelled, error, timeout
from tests.support.store.own_clock import on_own_clock
from tests.support.store.rows import head_row
from turnstile.adapters.dynamo.models import KINDS, to_item
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.store.core.errors import StorageFault, Throttled, TurnstileError
from turnstile.store.retry import Patience

KEYS = ["contract/table/t", "contract/table/u"]
ROW = head_row(KEYS[0])
ANSWER = {"Responses": [{"Item": to_item(KINDS["table"], ROW)}, {}]}
PATIENCE = Patience(deadline_s=0.3, first_s=0.001, longest_s=0.002)

BUSY = [
    cancelled("None", "TransactionConflict"),
    cancelled("ThrottlingError", "None"),
    cancelled("ProvisionedThroughputExceeded", "TransactionConflict"),
    error("ProvisionedThroughputExceededException"),
    error("ThrottlingException"),
    error("TransactionConflictException"),
]
LOST = [timeout(), error("InternalServerError", 500), error("ServiceUnavailable", 503)]


def refs(*outcomes: Any) -> tuple[DynamoRefs, Scripted]:
    client = Scripted(*outcomes)
    return on_own_clock(DynamoRefs(client, "refs", realm="contract", patience=PATIENCE)), client


@pytest.mark.parametrize("fault", [*BUSY, *LOST], ids=repr)
def test_i8_a_clash_with_a_writer_is_not_noticed_and_the_whole_cut_is_read_again(fault: Exception) -> None:
    store, client = refs(fault, fault, ANSWER)
    assert store.read_cut(KEYS) == {KEYS[0]: ROW}
    assert [operation for operation, _ in client.asked] == ["transact_get_items"] * 3
    assert client.asked[0] == client.asked[1] == client.asked[2]
    keys = [item["Get"]["Key"]["key"]["S"] for item in client.asked[0][1]["TransactItems"]]
    assert keys == KEYS


@pytest.mark.parametrize("missing", [{}, None, {"Item": None}, {"Item": {}}])
def test_i8_a_row_that_is_not_there_is_left_out_however_the_service_says_so(missing: object) -> None:
    store, _ = refs({"Responses": [missing, {"Item": to_item(KINDS["table"], ROW)}]})
    assert store.read_cut(KEYS[::-1]) == {KEYS[0]: ROW}


@pytest.mark.parametrize("fault", BUSY, ids=repr)
def test_i8_rows_that_are_changed_all_the_time_end_as_throttled(fault: Exception) -> None:
    store, client = refs(fault)
    with pytest.raises(Throttled):
        store.read_cut(KEYS)
    assert len(client.asked) > 2


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_i8_a_cut_that_is_never_answered_is_a_fault_of_the_store(fault: Exception) -> None:
    with pytest.raises(StorageFault):
        refs(fault)[0].read_cut(KEYS)


def test_i8_a_mistake_in_the_request_is_not_repeated() -> None:
    for fault, expected in (
        (cancelled("ValidationError", "None"), ValueError),
        (error("AccessDeniedException"), TurnstileError),
    ):
        store, client = refs(fault)
        with pytest.raises(expected):
            store.read_cut(KEYS)
        assert len(client.asked) == 1

"""Faults of the store: faults that are tried again, faults that are answers, and faults that leave
the outcome unknown (I3).

A throttle or a clash with a transaction mistaken for a commit conflict would make a writer rebase
for nothing; a lost answer mistaken for a refusal would make it commit twice.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    ChecksumError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)

from tests.support.store.clients import Scripted, cancelled, error, timeout
from tests.support.store.own_clock import on_own_clock
from tests.support.store.rows import change, head_row
from turnstile.adapters.dynamo.calls import Fault, fault_of
from turnstile.adapters.dynamo.models import KINDS, to_item
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.machine import SystemClock
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, StoreUnavailable, Throttled, TooLarge
from turnstile.store.core.writes import Equals, Set
from turnstile.store.ports import Accepted, AllAccepted, Obj, Rejected, SomeRejected
from turnstile.store.retry import Patience

KEY = "contract/table/t"
ROW = head_row(KEY)
ITEM = to_item(KINDS["table"], ROW)
WRITE = change(KEY, Set(("latest",), 6), when=(Equals(("latest",), 5),))
DONE = {"Attributes": ITEM}
REFUSED = error("ConditionalCheckFailedException", Item=ITEM)
PATIENCE = Patience(deadline_s=0.3, first_s=0.001, longest_s=0.002)

BUSY = [
    error("ProvisionedThroughputExceededException"),
    error("ThrottlingException"),
    error("RequestLimitExceeded"),
    error("TransactionConflictException"),
    error("TransactionInProgressException"),
    error("Anything", 429),
]
UNSENT = [
    ConnectTimeoutError(endpoint_url="http://store"),
    EndpointConnectionError(endpoint_url="http://store"),
]
LOST = [
    timeout(),
    ConnectionClosedError(endpoint_url="http://store"),
    SSLError(endpoint_url="http://store", error="bad record type"),
    ProxyConnectionError(proxy_url="http://proxy"),
    ChecksumError(checksum_type="crc32", expected_checksum=1, actual_checksum=2),
    error("InternalServerError", 500),
    error("ServiceUnavailable", 503),
    error("Anything", 502),
]


def refs(*outcomes: Any) -> tuple[DynamoRefs, Scripted]:
    client = Scripted(*outcomes)
    return on_own_clock(DynamoRefs(client, "refs", realm="contract", patience=PATIENCE)), client


@pytest.mark.parametrize("fault", [*BUSY, *UNSENT, *LOST], ids=repr)
def test_i3_a_fault_that_passes_is_not_noticed_and_the_very_same_request_is_sent_again(fault: Exception) -> None:
    store, client = refs(fault, fault, DONE)
    assert store.write(WRITE) == Accepted(ROW)
    assert len(client.asked) == 3
    assert client.asked[0] == client.asked[1] == client.asked[2]


@pytest.mark.parametrize("fault", BUSY, ids=repr)
def test_i3_what_was_certainly_not_applied_ends_as_throttled(fault: Exception) -> None:
    store, client = refs(fault)
    with pytest.raises(Throttled):
        store.write(WRITE)
    assert len(client.asked) > 2


@pytest.mark.parametrize("fault", UNSENT, ids=repr)
def test_i3_what_was_never_sent_is_tried_again_and_ends_as_a_store_that_cannot_be_used(fault: Exception) -> None:
    store, client = refs(fault)
    with pytest.raises(StoreUnavailable):
        store.write(WRITE)
    assert len(client.asked) > 2


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_i3_a_lost_answer_ends_as_unknown_whatever_came_after_it(fault: Exception) -> None:
    for script in ([fault], [fault, BUSY[0]], [BUSY[0], fault, BUSY[3]], [fault, error("AccessDeniedException")]):
        store, _ = refs(*script)
        with pytest.raises(OutcomeUnknown):
            store.write(WRITE)


def test_i3_a_resend_that_is_refused_answers_the_row_with_the_winner() -> None:
    store, client = refs(timeout(), REFUSED)
    assert store.write(WRITE) == Rejected(ROW, uncertain=True)
    assert len(client.asked) == 2


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_i3_a_refusal_says_whether_an_earlier_answer_was_lost(fault: Exception) -> None:
    """The first request may still be on its way, and land once the row takes it."""
    refused = cancelled("None", "ConditionalCheckFailed")
    assert refs(fault, BUSY[0], REFUSED)[0].write(WRITE) == Rejected(ROW, uncertain=True)
    store, _ = refs(BUSY[0], fault, refused)
    assert store.transact([WRITE], "token") == SomeRejected({1: None}, uncertain=True)


@pytest.mark.parametrize("fault", [*BUSY, *UNSENT], ids=repr)
def test_i3_a_refusal_after_what_was_never_applied_is_certain(fault: Exception) -> None:
    assert refs(fault, REFUSED)[0].write(WRITE) == Rejected(ROW)
    store, _ = refs(fault, cancelled("ConditionalCheckFailed"))
    assert store.transact([WRITE], "token") == SomeRejected({0: None})


def test_i2_a_refusal_is_an_answer_and_is_not_sent_again() -> None:
    store, client = refs(REFUSED)
    assert store.write(WRITE) == Rejected(ROW)
    assert len(client.asked) == 1


def test_i3_a_transaction_is_sent_again_under_the_same_token_and_unchanged() -> None:
    store, client = refs(timeout(), cancelled("None", "TransactionConflict"), {})
    assert store.transact([WRITE, change("contract/table/u", Set(("latest",), 6))], "token") == AllAccepted()
    assert len(client.asked) == 3
    assert client.asked[0] == client.asked[1] == client.asked[2]
    assert client.asked[0][1]["ClientRequestToken"] == "token"


def test_i8_clashes_and_throttles_within_a_transaction_are_no_refusal() -> None:
    store, _ = refs(cancelled("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"))
    with pytest.raises(Throttled):
        store.transact([WRITE], "token")


def test_i8_a_failed_condition_beside_a_clash_is_a_refusal_of_that_write_alone() -> None:
    store, client = refs(cancelled("TransactionConflict", "ConditionalCheckFailed", "None"))
    assert store.transact([WRITE], "token") == SomeRejected({1: None})
    assert len(client.asked) == 1


@pytest.mark.parametrize("stale", [False, True])
def test_every_page_of_a_scan_is_asked_for_as_the_first_was(stale: bool) -> None:
    """A stale page costs half of a consistent one."""
    cut = {"key": {"S": "contract/table/m"}}
    began = {"key": {"S": "contract/table/b"}}
    store, client = refs({"Items": [ITEM], "LastEvaluatedKey": cut}, {"Items": []})
    assert list(store.scan("table", after="contract/table/b", stale=stale)) == [ROW]
    assert [asked["ConsistentRead"] for _, asked in client.asked] == [not stale] * 2
    assert client.asked[-1][1]["ExclusiveStartKey"] == cut
    client = Scripted({"Items": []})
    assert list(DynamoRefs(client, "refs", realm="contract").scan("table", after="contract/table/b")) == []
    assert client.asked[0][1]["ExclusiveStartKey"] == began


def test_a_scan_filters_by_no_attribute_of_the_key_which_emulators_refuse() -> None:
    """Rows of another realm, and of a kind that this code does not know, are told by their keys
    when they have come."""
    others = [{**ITEM, "key": {"S": key}} for key in ("another/table/t", "contract/later/t")]
    for ask in (
        lambda store: list(store.scan("table")),
        lambda store: store.scan_part(["table"], after="", limit=9)[0],
    ):
        store, client = refs({"Items": [*others, ITEM]})
        assert ask(store) == [ROW]
        ((_, asked),) = client.asked
        assert set(asked["ExpressionAttributeNames"].values()) == {"kind"}


@pytest.mark.parametrize("fault", BUSY[:3], ids=repr)
def test_i6_a_read_that_is_put_off_ends_as_throttled(fault: Exception) -> None:
    with pytest.raises(Throttled):
        refs(fault)[0].read(KEY)


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_i6_a_read_without_an_answer_ends_as_a_fault_and_never_as_absence(fault: Exception) -> None:
    for read in (lambda store: store.read(KEY), lambda store: store.read_many([KEY]), lambda store: [*store.scan("t")]):
        with pytest.raises(StorageFault):
            read(refs(fault)[0])


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (error("AccessDeniedException"), StoreUnavailable),
        (error("ResourceNotFoundException"), StoreUnavailable),
        (NoCredentialsError(), StoreUnavailable),
        (error("ValidationException"), ValueError),
        (error("IdempotentParameterMismatchException"), ValueError),
        (cancelled("None", "ValidationError"), ValueError),
        (error("ValidationException",
               Error={"Code": "ValidationException", "Message": "Item size has exceeded the maximum allowed size"}),
               TooLarge),
    ],
    ids=repr,
)  # fmt: skip
def test_i3_what_waiting_does_not_mend_is_reported_at_once(fault: Exception, says: type[Exception]) -> None:
    store, client = refs(fault)
    with pytest.raises(says):
        store.write(WRITE)
    assert len(client.asked) == 1


def test_i11_calls_end_at_their_deadline() -> None:
    now = [0.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    from turnstile.adapters.dynamo.calls import Caller

    caller = Caller(Scripted(BUSY[0]), patience=Patience(4.0, 0.025, 0.5), sleep=sleep, now=lambda: now[0])
    with pytest.raises(Throttled):
        caller.write("update_item", {})
    assert 3 < now[0] <= 4
    assert max(pauses) <= 0.5
    assert min(pauses) < 0.1  # full jitter: never a common beat of many writers


def test_i9_batches_that_come_back_unfinished_are_completed() -> None:
    other = {**ITEM, "key": {"S": "contract/table/u"}}
    left = {"refs": {"Keys": [{"key": {"S": "contract/table/u"}}], "ConsistentRead": True}}
    store, client = refs({"Responses": {"refs": [ITEM]}, "UnprocessedKeys": left}, {"Responses": {"refs": [other]}})
    assert sorted(store.read_many([KEY, "contract/table/u"])) == [KEY, "contract/table/u"]
    assert client.asked[1][1]["RequestItems"] == left


def _objs(*outcomes: Any) -> tuple[DynamoObjs, Scripted]:
    client = Scripted(*outcomes)
    return on_own_clock(DynamoObjs(client, "objs", clock=SystemClock(), patience=PATIENCE)), client


def test_i3_identities_that_were_not_all_written_are_written_again_or_the_caller_hears_it() -> None:
    objs = [Obj("s", f"identity/{number}", "identity", b"1", 1) for number in range(3)]
    left = {"objs": [{"PutRequest": {"Item": {"space": {"S": "s"}, "id": {"S": "identity/2"}}}}]}
    store, client = _objs({"UnprocessedItems": left}, {"UnprocessedItems": {}})
    store.put_many(objs)
    assert client.asked[1][1]["RequestItems"] == left
    store, _ = _objs({"UnprocessedItems": left})
    with pytest.raises(Throttled):
        store.put_many(objs)


def test_i9_objs_that_were_not_all_read_are_never_called_absent() -> None:
    left = {"objs": {"Keys": [{"space": {"S": "s"}, "id": {"S": "a"}}], "ConsistentRead": True}}
    store, _ = _objs({"Responses": {}, "UnprocessedKeys": left})
    with pytest.raises(Throttled):
        store.get_many("s", ["a"])


def test_i3_an_unfamiliar_error_is_taken_for_a_lost_answer() -> None:
    assert fault_of(RuntimeError("?")) is Fault.LOST
    assert fault_of(ReadTimeoutError(endpoint_url="x")) is Fault.LOST
    assert fault_of(error("SomethingNew", 500)) is Fault.LOST
    assert fault_of(error("SomethingNew", 400)) is Fault.BROKEN


def test_i6_every_read_is_strongly_consistent_but_a_scan_that_asks_for_less() -> None:
    """Emulators are always consistent: only the request shows what it asks for."""
    client = Scripted({"Item": None, "Responses": {}, "Items": []})
    refs = DynamoRefs(client, "refs", realm="contract")  # type: ignore[arg-type]
    objs = DynamoObjs(client, "objs", clock=SystemClock())  # type: ignore[arg-type]
    refs.read(KEY)
    refs.read_many([KEY])
    list(refs.scan("table"))
    objs.get("space", "metadata/m")
    objs.get_many("space", ["metadata/m", "metadata/n"])
    list(objs.list("space", "metadata/"))
    objs.newest("space", "metadata/")
    assert {operation for operation, _ in client.asked} == {"get_item", "batch_get_item", "query", "scan"}
    for operation, asked in client.asked:
        parts = asked["RequestItems"].values() if operation == "batch_get_item" else [asked]
        assert all(part["ConsistentRead"] is True for part in parts), operation
    client.asked.clear()
    list(refs.scan("table", stale=True))
    assert [asked["ConsistentRead"] for _, asked in client.asked] == [False]

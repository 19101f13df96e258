"""Targets of events over real HTTP: the requests, their signatures, and the answers that count as
acknowledged (I14)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.clients.inbox import Inbox
from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend
from tests.support.store.clients import Scripted
from turnstile.adapters import event_targets
from turnstile.adapters.event_targets import BadTarget, EventBus, Webhook, open_targets
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.deliver import NotDelivered

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
EVENTS = [
    CloudEvent(f"t/ratified/{version}", "/v1/catalogs/main", "turnstile.table.ratified", "t", {"version": version})
    for version in (1, 2)
]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as served:
        yield served


def webhook(url: str) -> Webhook:
    (target,) = open_targets(f"hook={url}", SECRET, FakeClock(1_770_000_000_000))
    assert isinstance(target, Webhook)
    return target


# -- webhooks ---------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_cloud_events_with_a_signature_that_its_owner_can_check(inbox: Inbox) -> None:
    webhook(inbox.url).send(EVENTS)
    (request,) = inbox.requests
    assert request.headers["content-type"].startswith("application/cloudevents-batch+json")
    events = json.loads(request.body)
    assert [event["data"] for event in events] == [{"version": 1}, {"version": 2}]
    assert {event["specversion"] for event in events} == {"1.0"}
    assert "time" not in events[0]
    id = request.headers["webhook-id"]
    timestamp = request.headers["webhook-timestamp"]
    assert int(timestamp) == 1_770_000_000
    signed = hmac.new(KEY, f"{id}.{timestamp}.".encode() + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(signed).decode()


def test_the_same_batch_has_the_same_id_and_another_one_another(inbox: Inbox) -> None:
    target = webhook(inbox.url)
    for batch in (EVENTS, EVENTS, EVENTS[:1]):
        target.send(batch)
    first, again, shorter = (request.headers["webhook-id"] for request in inbox.requests)
    assert first == again != shorter


@pytest.mark.parametrize("status", [300, 301, 308, 400, 404, 410, 429, 500, 503])
def test_i14_any_answer_but_success_is_none_and_a_redirect_is_not_followed(inbox: Inbox, status: int) -> None:
    inbox.status = status
    inbox.headers = {"location": inbox.url + "/elsewhere"}
    with pytest.raises(NotDelivered, match=f"answered {status}"):
        webhook(inbox.url).send(EVENTS)
    assert len(inbox.requests) == 1


@pytest.mark.parametrize("status", [200, 202, 204])
def test_every_success_is_one(inbox: Inbox, status: int) -> None:
    inbox.status = status
    webhook(inbox.url).send(EVENTS)


def test_i14_a_webhook_that_does_not_answer_in_time_or_is_not_there_has_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_targets, "ANSWER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(NotDelivered, match="no answer"):
            webhook(f"http://127.0.0.1:{silent.getsockname()[1]}").send(EVENTS)
        port = silent.getsockname()[1]
    with pytest.raises(NotDelivered, match="no answer"):
        webhook(f"http://127.0.0.1:{port}").send(EVENTS)


def test_a_connection_that_was_closed_between_two_batches_is_opened_again(inbox: Inbox) -> None:
    target = webhook(inbox.url)
    inbox.headers = {"connection": "close"}
    for _ in range(3):
        target.send(EVENTS)
    assert len(inbox.requests) == 3


# -- buses ------------------------------------------------------------------------------------------------------------


def test_a_rule_of_the_bus_hands_on_what_it_asks_for(stack: Backend) -> None:
    clients = {name: _client(stack, name) for name in ("events", "sqs")}
    queue = clients["sqs"].create_queue(QueueName="events-of-tables")["QueueUrl"]
    arn = clients["sqs"].get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    bus = clients["events"].create_event_bus(Name="lake")["EventBusArn"]
    pattern = {"source": ["turnstile"], "detail-type": ["turnstile.table.ratified"]}
    clients["events"].put_rule(Name="commits", EventBusName="lake", EventPattern=json.dumps(pattern))
    clients["events"].put_targets(Rule="commits", EventBusName="lake", Targets=[{"Id": "1", "Arn": arn}])
    other = CloudEvent("t/dropped/3", "/v1/catalogs/main", "turnstile.table.dropped", "t", {})
    EventBus("bus", bus, clients["events"]).send([*EVENTS, other])
    got = clients["sqs"].receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
    details = [json.loads(message["Body"]) for message in got]
    assert sorted(detail["detail"]["data"]["version"] for detail in details) == [1, 2]
    assert {detail["detail-type"] for detail in details} == {"turnstile.table.ratified"}
    assert details[0]["resources"] == ["t"]
    assert details[0]["detail"]["specversion"] == "1.0"


def _client(stack: Backend, service: str) -> Any:
    import boto3

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, endpoint_url=stack.url, region_name="us-east-1", **keys)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"Entries": [{"EventId": "1"}, {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"}]}, "1 of 2: Thr"),
        (EndpointConnectionError(endpoint_url="https://events"), "Could not connect"),
    ],
)
def test_i14_a_bus_that_did_not_take_all_has_not_acknowledged(outcome: Any, why: str) -> None:
    with pytest.raises(NotDelivered, match=why):
        EventBus("bus", "lake", Scripted(outcome)).send(EVENTS)


# -- descriptions -----------------------------------------------------------------------------------------------------


def test_targets_are_read_from_their_description() -> None:
    targets = open_targets(
        " a=https://example.org/x?y=z\n b=eventbridge:arn:aws:events:eu:1:event-bus/b ", SECRET, FakeClock()
    )
    assert [(target.name, target.most) for target in targets] == [("a", 100), ("b", 10)]
    assert open_targets("", "", FakeClock()) == []
    assert len(open_targets("b=eventbridge:lake", "", FakeClock())) == 1, "a bus needs no secret"


@pytest.mark.parametrize(
    ("description", "secret", "why"),
    [
        ("https://example.org", SECRET, "write NAME=URL"),
        ("A=https://example.org", SECRET, "write NAME=URL"),
        ("a=https://example.org a=eventbridge:b", SECRET, "two targets are called 'a'"),
        ("a=", SECRET, "no webhook and no bus"),
        ("a=ftp://example.org", SECRET, "no webhook and no bus"),
        ("a=http:///x", SECRET, "no webhook and no bus"),
        ("a=eventbridge:", SECRET, "names no bus"),
        ("a=https://me:pw@example.org", SECRET, "carries a password"),
        ("a=https://example.org", "", "at least 24 random bytes"),
        ("a=https://example.org", "whsec_!!!!", "at least 24 random bytes"),
        ("a=https://example.org", "whsec_" + base64.b64encode(KEY[:23]).decode(), "at least 24 random bytes"),
        ("a=https://example.org", SECRET.removeprefix("whsec_"), "at least 24 random bytes"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused_and_shows_no_secret(
    description: str, secret: str, why: str
) -> None:
    with pytest.raises(BadTarget, match=why) as refused:
        open_targets(description, secret, FakeClock())
    assert "pw" not in str(refused.value)
    assert not secret.removeprefix("whsec_") or secret.removeprefix("whsec_") not in str(refused.value)


def test_a_target_may_be_used_by_threads(inbox: Inbox) -> None:
    target = webhook(inbox.url)
    failed = list[BaseException]()

    def send() -> None:
        try:
            for _ in range(5):
                target.send(EVENTS)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, len(inbox.requests)) == ([], 20)

"""Targets of events (``turnstile.events.deliver.EventTarget``): webhooks, and an event bus of
EventBridge."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from turnstile.adapters import opening
from turnstile.catalog.core.follow_ups import ACTION
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.deliver import EventTarget, NotDelivered
from turnstile.store.ports import Clock

BUS: Final = "eventbridge:"
BUS_ENTRIES: Final = 10
"""The limit of one PutEvents."""

WEBHOOK_EVENTS: Final = 100
CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0
"""How long a webhook may take to answer: with the connection less than a deliverer holds it
(``deliveries.HELD_MS``)."""

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how such a secret begins
SECRET_BYTES: Final = 24
"""The shortest secret that Standard Webhooks allows."""

_NAME: Final = re.compile(ACTION)
_BATCH: Final = "application/cloudevents-batch+json; charset=utf-8"


class BadTarget(ValueError):
    """A target's description cannot be used; the message says why."""


def open_targets(
    description: str, secret: str, clock: Clock, more: Mapping[str, Callable[[str, str], EventTarget]] | None = None
) -> list[EventTarget]:
    """Returns the targets of ``NAME=URL NAME=URL ...``: a URL of http or https is a webhook's,
    ``eventbridge:BUS`` names a bus or its ARN. Raises BadTarget.

    Args:
        secret: signs the requests to webhooks (Standard Webhooks: ``whsec_`` and base64).
        more: further kinds, by the beginning of their URLs: from name and URL to the target.
    """
    targets: dict[str, EventTarget] = {}
    for part in description.split():
        name, _, url = part.partition("=")
        if not _NAME.fullmatch(name):
            raise BadTarget(f"{part[:100]!r} does not begin with a name: write NAME=URL, the name of a-z, 0-9, - and _")
        if name in targets:
            raise BadTarget(f"two targets are called '{name}'")
        kind = next((kind for kind in more or {} if url.startswith(kind)), None)
        targets[name] = more[kind](name, url) if more and kind else _target(name, url, secret, clock)
    return list(targets.values())


def _target(name: str, url: str, secret: str, clock: Clock) -> EventTarget:
    if url.startswith(BUS):
        bus = url.removeprefix(BUS)
        if not bus:
            raise BadTarget(f"the target '{name}' names no bus: write eventbridge:BUS")
        return EventBus(name, bus)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadTarget(f"the target '{name}' is no webhook and no bus: write https://HOST/PATH or eventbridge:BUS")
    if parts.username is not None or parts.password is not None:
        raise BadTarget(f"the URL of target '{name}' carries a password: events for a webhook are signed instead")
    return Webhook(name, url, key_of(secret), clock)


def key_of(secret: str) -> bytes:
    """Returns the key of a secret. Raises BadTarget."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or len(key) < SECRET_BYTES:
        raise BadTarget(
            f"webhooks are signed with a secret: '{SECRET_PREFIX}' and the base64 of at least {SECRET_BYTES} random "
            f"bytes"
        )
    return key


@contextmanager
def delivery_errors() -> Iterator[None]:
    """Raises NotDelivered for an error that a client of AWS raises inside."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise NotDelivered(str(error)) from error


class Webhook:
    """Posts a batch of CloudEvents as JSON, signed as Standard Webhooks 1.0.0 says. An answer of
    200 to 299 acknowledges it.

    A redirect is not followed, and nothing of an answer but its status is read.
    """

    most: Final = WEBHOOK_EVENTS

    def __init__(self, name: str, url: str, key: bytes, clock: Clock) -> None:
        from urllib3 import PoolManager, Timeout

        self.name = name
        self._url = url
        self._key = key
        self._clock = clock
        self._http = PoolManager(timeout=Timeout(connect=CONNECT_S, read=ANSWER_S), retries=False)

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Posts one request. Raises NotDelivered."""
        from urllib3.exceptions import HTTPError

        body = msgspec.json.encode(events)
        headers = {"content-type": _BATCH, "user-agent": "turnstile", **self._signature_headers(events, body)}
        try:
            response = self._http.request(
                "POST", self._url, body=body, headers=headers, redirect=False, preload_content=False
            )
        except HTTPError as error:
            raise NotDelivered(f"no answer: {error}") from error
        response.close()
        if not 200 <= response.status < 300:
            raise NotDelivered(f"answered {response.status}")

    def _signature_headers(self, events: Sequence[CloudEvent], body: bytes) -> Mapping[str, str]:
        """The headers that sign ``body``. The id is that of these events: a batch that is sent
        again with more has another."""
        id = "evt_" + hashlib.sha256("\n".join(event.id for event in events).encode()).hexdigest()[:32]
        timestamp = str(self._clock.now_ms() // 1000)
        signature = hmac.digest(self._key, f"{id}.{timestamp}.".encode() + body, "sha256")
        return {
            "webhook-id": id,
            "webhook-timestamp": timestamp,
            "webhook-signature": "v1," + base64.b64encode(signature).decode(),
        }


class EventBus:
    """Puts events on a bus of EventBridge: the source is ``turnstile``, the detail type the
    event's, the detail the whole CloudEvent. Its rules hand them on to queues, topics, functions
    and other destinations.
    """

    most: Final = BUS_ENTRIES

    def __init__(self, name: str, bus: str, client: Any = None) -> None:
        self.name = name
        self._bus = bus
        self._client = client

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Sends one PutEvents. Raises NotDelivered."""
        if self._client is None:
            self._client = opening.events()
        entries = [
            {
                "EventBusName": self._bus,
                "Source": "turnstile",
                "DetailType": event.type,
                "Detail": msgspec.json.encode(event).decode(),
                "Resources": [event.subject],
            }
            for event in events
        ]
        with delivery_errors():
            answer = self._client.put_events(Entries=entries)
        errors = [entry for entry in answer["Entries"] if entry.get("ErrorCode")]
        if errors:
            first = errors[0]
            raise NotDelivered(f"{len(errors)} of {len(entries)}: {first['ErrorCode']} {first.get('ErrorMessage', '')}")

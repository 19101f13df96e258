"""Events as CloudEvents 1.0 (https://github.com/cloudevents/spec), for readers of the log and
targets of deliveries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.events.core.events import Event

FLEET: Final = "(fleet)"
"""The log of the fleet has this in the place of a catalog's name. No catalog can have this name."""

FLEET_SOURCE: Final = "/v1/fleet"


class CloudEvent(msgspec.Struct, frozen=True):
    """An event in the structured JSON form. ``time`` is absent where it is not known any more."""

    id: str
    source: str
    type: str
    subject: str
    data: dict[str, Any]
    time: str | UnsetType = UNSET
    specversion: Literal["1.0"] = "1.0"
    datacontenttype: Literal["application/json"] = "application/json"


def cloud_event(event: Event, catalog: str, *, named: bool = True) -> CloudEvent:
    """Returns ``event`` of ``catalog``; without the full name, for principals that may not see it,
    unless ``named``."""
    data = {"name": event.name, **event.data} if named else event.data
    source = FLEET_SOURCE if catalog == FLEET else f"/v1/catalogs/{catalog.lower()}"
    subject = event.subject or event.name
    if not event.time:
        return CloudEvent(event.id, source, event.type, subject, data)
    at = datetime.fromtimestamp(event.time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return CloudEvent(event.id, source, event.type, subject, data, at)

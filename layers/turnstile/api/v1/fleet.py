"""The fleet over HTTP, for administrators: its members, and the events of members and granules
(docs/fleet.md)."""

from __future__ import annotations

from itertools import islice

from chalice.app import Blueprint

from turnstile.api.http.authorization import metastore, needs
from turnstile.api.http.request import Query
from turnstile.api.services import services
from turnstile.api.v1.events import MOST, USUAL, WAIT_MOST_S, Events, wait_for
from turnstile.events.core.cloud_events import FLEET, CloudEvent, cloud_event
from turnstile.events.core.cursors import FIELD, Place
from turnstile.fleet.read import FleetReader, FleetReport
from turnstile.rights.rules import admin_only
from turnstile.store.core.opaque import seal

routes = Blueprint(__name__)


@routes.route("/v1/fleet", methods=["GET"])
@needs((admin_only, metastore))
def fleet() -> FleetReport:
    """The servers and workers that share their work, and the granules of each."""
    Query()
    return FleetReader(services().world).report()


@routes.route("/v1/fleet/events", methods=["GET"])
@needs((admin_only, metastore))
def fleet_events() -> Events:
    """Events of members and granules after a cursor."""
    query = Query(FIELD, "limit", "wait_s")
    here = services()
    limit = query.integer("limit", USUAL, 1, MOST)
    wait_s = query.integer("wait_s", 0, 0, WAIT_MOST_S)
    reader = here.event_reader

    def read(place: Place) -> tuple[list[CloudEvent], Place]:
        page = list(islice(reader.events(place), limit))
        return [cloud_event(event, FLEET) for event, _ in page], page[-1][1] if page else place

    events, place = wait_for(here, read, reader.place(FLEET, query.text(FIELD)), wait_s)
    return Events(events, seal(place))

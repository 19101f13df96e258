"""Events over HTTP: changes of a catalog and of its tables since a cursor (docs/events.md); the
fleet's, for administrators.

Present rights decide which events are shown, as for a listing of their subjects: events of a table
to principals that may see the table, events of the catalog to principals that may edit it. A table
without a name is authorized as if it had no owner and no grants of its own, by the entities around
its last name that are older than it. Its last name is left out for principals that may not see the
namespace of that name (I12).

The answer is JSON, or server-sent events (HTML standard, section 9.2) for clients that accept
``text/event-stream``. Such an answer ends like a JSON answer, because a function behind a gateway
cannot keep it open: the client reconnects by itself, with ``Last-Event-ID``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeVar

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, guard, metastore, needs
from turnstile.api.http.request import Query, current, pause
from turnstile.api.http.responses import Answer
from turnstile.api.services import Services, services
from turnstile.catalog.core.tree import Tree
from turnstile.delta.core.head import TableHead
from turnstile.events.core.cloud_events import FLEET, CloudEvent, cloud_event
from turnstile.events.core.cursors import FIELD, Place
from turnstile.events.core.events import Event, catalog_created
from turnstile.fleet.read import FleetReader, FleetReport
from turnstile.rights.grants import NO_ACCESS, Principal
from turnstile.rights.rules import Chain, admin_only, edit_catalog, is_permitted, see_schema, see_table, use_catalog
from turnstile.store.core.errors import InvalidRequest, NotFound, Throttled
from turnstile.store.core.names import check_identifier, check_uuid
from turnstile.store.core.opaque import seal
from turnstile.store.ports import parse_rows

T = TypeVar("T")

routes = Blueprint(__name__)

USUAL: Final = 100
MOST: Final = 1_000
WAIT_MOST_S: Final = 20
"""The longest wait: less than the function's time limit, which is less than the gateway's."""

EVENT_STREAM: Final = "text/event-stream"
RECONNECT_MS: Final = 1_000
"""How long a client of server-sent events pauses before it comes back."""

_LOOKS: Final = 10
"""How often a page is judged anew because the catalog has changed meanwhile."""

POLL_S: Final = 0.25
"""How often a request that waits looks whether the log has grown; one read each."""

_PAGE: Final = 500
"""The number of events with rights looked up together."""


class Events(msgspec.Struct, frozen=True):
    """Events in the order of the log. ``cursor``: the value of ``after`` for the next request."""

    events: list[CloudEvent]
    cursor: str


def catalog_of_query(_params: Params) -> Target:
    """Returns the catalog that the query names."""
    (name, *_) = current().query.get("catalog") or [""]
    return Target(_catalog(name))


@routes.route("/v1/events", methods=["GET"])
@needs((use_catalog, catalog_of_query), first=True)
def read_events() -> Events | Answer:
    query = Query("catalog", "table_id", FIELD, "limit", "wait_s")
    headers = current().headers
    streamed = any(media.partition(";")[0].strip() == EVENT_STREAM for media in headers.get("accept", "").split(","))
    catalog = _catalog(query.text("catalog") or "")
    table_id = query.text("table_id")
    only = None if table_id is None else check_uuid(table_id, "table_id")
    limit = query.integer("limit", MOST if streamed else USUAL, 1, MOST)
    wait_s = query.integer("wait_s", WAIT_MOST_S if streamed else 0, 0, WAIT_MOST_S)
    here = services()
    place = here.event_reader.place(catalog, (streamed and headers.get("last-event-id")) or query.text(FIELD))
    view = _View(here, catalog, only)
    events, place = wait_for(here, lambda behind: view.read(behind, limit), place, wait_s)
    return _event_stream(events, place) if streamed else Events([event for event, _ in events], seal(place))


def wait_for(
    here: Services, read: Callable[[Place], tuple[list[T], Place]], place: Place, wait_s: int
) -> tuple[list[T], Place]:
    """Returns the result of ``read`` after ``place``, and the next place. Without a result it reads
    again for up to ``wait_s``, unless too many requests, or too many of the principal, wait
    already.
    """
    events, place = read(place)
    principal = current().principal.name
    if not events and wait_s and here.event_waits.begin(principal):
        try:
            for _ in range(int(wait_s / POLL_S)):
                pause(POLL_S)
                events, place = read(place)
                if events:
                    break
        finally:
            here.event_waits.end(principal)
    return events, place


def _event_stream(events: list[tuple[CloudEvent, Place]], place: Place) -> Answer:
    """Each event with the cursor behind it as its id, and the cursor alone at the end: it is kept
    although no event comes with it."""
    messages = [
        f"id: {seal(behind)}\nevent: {event.type}\ndata: {msgspec.json.encode(event).decode()}\n\n"
        for event, behind in events
    ]
    messages.append(f"id: {seal(place)}\nretry: {RECONNECT_MS}\n\n")
    headers = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store"}
    return Answer(msgspec.Raw("".join(messages).encode()), headers=headers)


def _catalog(name: str) -> str:
    if not name:
        raise InvalidRequest("catalog is missing", field="catalog", remedy="name the catalog of the events")
    return check_identifier(name, "catalog")


class _View:
    """The log as the principal of this request may see it."""

    def __init__(self, here: Services, catalog: str, only: str | None) -> None:
        self._here = here
        self._catalog = catalog
        self._only = only
        self._principal = guard().principal
        self._require_catalog()

    def _require_catalog(self) -> tuple[Tree, int] | None:
        """The catalog's present tree, and its creation time; None for an admin that reads the
        events of a dropped catalog. Raises NotFound."""
        present = self._here.authorizers.access.current_since(self._catalog)
        if present is None and not (self._principal.admin and self._here.event_reader.has_log(self._catalog)):
            raise NotFound("catalog", self._catalog, field="catalog")
        return present

    def read(self, place: Place, limit: int) -> tuple[list[tuple[CloudEvent, Place]], Place]:
        """Up to ``limit`` events behind ``place``, each with the place behind it, and the place
        behind the last that was looked at."""
        shown = list[tuple[CloudEvent, Place]]()
        events = self._here.event_reader.events(place)
        while page := list(islice(events, _PAGE)):
            rights = self._rights([event for event, _ in page])
            for event, behind in page:
                place = behind
                if (self._only is None or event.subject == self._only) and (rights is None or rights.sees(event)):
                    named = rights is None or rights.sees_name(event)
                    shown.append((cloud_event(event, self._catalog, named=named), behind))
                    if len(shown) == limit:
                        return shown, place
        return shown, place

    def _rights(self, events: list[Event]) -> _Rights | None:
        """The rights that decide on these events; None for an admin, who sees all."""
        if self._principal.admin:
            return None
        present = self._require_catalog()
        assert present is not None, "only an admin reads the log of a catalog that is gone"
        return _Rights(self._here, self._principal, present, events)


class _Rights:
    """The events of a page that a principal may see, by the rights in the catalog's present tree.

    Rights belong to entities, not to names. A dropped entity is authorized by the entities around
    its last name, as far as they are older than it: a principal that creates a namespace, or a
    catalog, again sees nothing from the one before.
    """

    def __init__(self, here: Services, principal: Principal, present: tuple[Tree, int], events: list[Event]) -> None:
        self._authorizers = here.authorizers
        self._principal = principal
        self._tree, self._since = present
        ids = list(dict.fromkeys(event.subject for event in events if event.subject))
        rows = here.world.refs.read_many([here.world.space.table(id) for id in ids])
        heads = list(parse_rows(TableHead, rows.values(), []))
        self._created = {head.table_id: head.created for head in heads}
        here.authorizers.tables.learn(heads)
        self._chains = {id: here.authorizers.tables.rights_in(self._tree, id) for id in ids}
        self._look_again(here)
        self._around_names = dict[tuple[str, int], Chain]()

    def _look_again(self, here: Services) -> None:
        """The name of a table that was renamed since the tree was read: from the present tree. A
        name that is neither in the tree before nor in the same tree after the lookup does not
        exist.
        """
        for _ in range(_LOOKS):
            nameless = [id for id, chain in self._chains.items() if chain is None]
            present = self._authorizers.access.current_since(self._tree.catalog) if nameless else None
            if present is None or present[0].head == self._tree.head:
                return
            self._tree, self._since = present
            self._chains |= {id: here.authorizers.tables.rights_in(self._tree, id) for id in nameless}
        raise Throttled("the catalog changed at every look at it")

    def sees(self, event: Event) -> bool:
        """Whether the principal may see the subject of the event."""
        if not event.subject:
            chain = self._authorizers.access.chain(self._tree, Target(self._tree.catalog))
            return catalog_created(event) == self._since and is_permitted(edit_catalog, self._principal, chain)
        present = self._chains[event.subject]
        if present is not None:
            return is_permitted(see_table, self._principal, present)
        around = self._around(event)
        return is_permitted(see_table, self._principal, Chain(around.catalog, around.schemas, NO_ACCESS))

    def sees_name(self, event: Event) -> bool:
        """Whether it may see the namespace that the table was in."""
        return not event.subject or is_permitted(see_schema, self._principal, self._around(event))

    def _around(self, event: Event) -> Chain:
        """The rights on the namespace that had the table, without rights of entities that are
        younger than the table."""
        created = self._created.get(event.subject, -1)
        key = event.name, created
        if key not in self._around_names:
            _, *path = event.name.split(".")
            self._around_names[key] = self._older(tuple(path[:-1]), created)
        return self._around_names[key]

    def _older(self, namespaces: tuple[str, ...], created: int) -> Chain:
        access = self._authorizers.access
        tree = self._tree
        chain = access.chain(tree, Target(tree.catalog, namespaces))
        paths = [namespaces[:depth] for depth in range(1, len(namespaces) + 1)]
        entries = [entry for path in paths if (entry := tree.find(path)) is not None]
        entities = access.entities(tree, [entry.obj for entry in entries])
        ages = [entities[entry.obj].created for entry in entries]
        schemas = (
            rights if depth < len(ages) and ages[depth] <= created else NO_ACCESS
            for depth, rights in enumerate(chain.schemas)
        )
        return msgspec.structs.replace(
            chain, catalog=chain.catalog if self._since <= created else NO_ACCESS, schemas=tuple(schemas)
        )


# -- the fleet, for administrators: its members, and the events of members and granules (docs/fleet.md) ----------------


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

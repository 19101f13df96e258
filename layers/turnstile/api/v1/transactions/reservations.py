"""Reservations of tables over HTTP: ask, renew, release, list (docs/transactions.md,
"Reservations").

Asking needs the right to write every table that is named. A reservation is its principal's: another
one that knows its id has none (I12).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import authorized_by_view, guard, table_guards
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.delta.core.reservations import ASK_AGAIN_MS, LEASE_USUAL_MS, RESERVATIONS_MAX, SHARE_MAX, Reservation
from turnstile.rights.rules import modify_table
from turnstile.store.core.errors import NotFound, PermissionDenied, Throttled
from turnstile.store.core.names import check_uuid

routes = Blueprint(__name__)

BY_ID = "/v1/reservations/{reservation_id}"


class ReservationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"tables", "lease_ms"?}``: uuids of Delta tables, which are reserved together with the
    tables that it has already."""

    tables: list[str]
    lease_ms: int = LEASE_USUAL_MS


class ShownReservation(msgspec.Struct, frozen=True):
    """A reservation. ``held``: its tables, until ``until`` (ms); ``wanted``: the tables for which
    it waits, behind the transactions in ``waits_for``. ``victim``: it was the last one in a circle
    of waits, and has lost its tables.
    """

    id: str
    state: Literal["held", "waiting", "victim"]
    held: list[str]
    wanted: list[str]
    until: int | UnsetType = UNSET
    waits_for: list[str] | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


class ReservationList(msgspec.Struct, frozen=True):
    """Reservations of tables that the caller may write, the oldest first."""

    reservations: list[ShownReservation]


@routes.route(BY_ID, methods=["PUT"])
@authorized_by_view("modify_table of each table")
def reserve_tables(reservation_id: str) -> ShownReservation:
    Query()
    id = check_uuid(reservation_id, "reservation_id")
    sent = body(ReservationBody)
    tables = [check_uuid(table_id, "tables") for table_id in sent.tables]
    table_guards([modify_table], tables)
    guard().mark_authorized()
    principal = guard().principal
    answer, mine = services().reservations.ask(principal.name, id, tables, sent.lease_ms, has_share=not principal.admin)
    note(reservation=id, tables=len(tables), outcome=answer.outcome)
    if answer.outcome == "full":
        raise Throttled(f"there are {RESERVATIONS_MAX} reservations", retry_after_ms=ASK_AGAIN_MS)
    if answer.outcome == "share":
        problem = f"'{principal.name}' has {SHARE_MAX} reservations, the limit while half of all places are taken"
        raise Throttled(problem, retry_after_ms=ASK_AGAIN_MS)
    if mine is None:
        return ShownReservation(id, "victim", [], [])
    shown = _reservation_to_show(mine)
    if not answer.blockers:
        return shown
    return msgspec.structs.replace(shown, waits_for=list(answer.blockers), retry_after_ms=ASK_AGAIN_MS)


@routes.route(BY_ID, methods=["DELETE"])
@authorized_by_view("nothing: it is the caller's own, or any for administrators")
def release_tables(reservation_id: str) -> None:
    """Also of one that is over, or never was. An administrator may release any."""
    Query()
    id = check_uuid(reservation_id, "reservation_id")
    guard().mark_authorized()
    principal = guard().principal
    if principal.admin:
        services().reservations.release_all(id)
    else:
        services().reservations.release(principal.name, id)
    note(reservation=id)


@routes.route("/v1/reservations", methods=["GET"])
@authorized_by_view("modify_table of the tables of each that is shown")
def reservations() -> ReservationList:
    Query()
    guard().mark_authorized()
    now = services().world.clock.now_ms()
    live = (each for each in services().reservations.register().reservations if each.is_live(now))
    return ReservationList([_reservation_to_show(each) for each in live if _may_see(each)])


def _may_see(reservation: Reservation) -> bool:
    try:
        table_guards([modify_table], [*reservation.held, *reservation.wanted])
    except (NotFound, PermissionDenied):
        return False
    return True


def _reservation_to_show(reservation: Reservation) -> ShownReservation:
    if reservation.is_victim:
        return ShownReservation(reservation.id, "victim", [], [], reservation.until)
    state: Literal["held", "waiting"] = "waiting" if reservation.wanted else "held"
    return ShownReservation(reservation.id, state, list(reservation.held), list(reservation.wanted), reservation.until)

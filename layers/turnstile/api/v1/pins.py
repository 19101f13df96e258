"""Pins of a table over HTTP: the pinned versions and their holders; readers that register; vacuums
(docs/maintenance.md, "What stays").

A principal that may read a table sees all pinned versions. It sees the names of holders only for
its own readers and transactions: a clone, a snapshot or a transaction may be in a place that it has
no right to know of (I12).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import guard, needs_table
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.api.v1.paths import TABLE_BY_ID, uuid_of_path
from turnstile.maintenance.core.pins import Marks, Pin
from turnstile.maintenance.holds import VacuumPlan
from turnstile.rights.rules import read_table, write_files
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import NonNegativeExact
from turnstile.store.core.names import check_uuid

routes = Blueprint(__name__)

_USUAL_TTL_MS = 3_600_000
_RETENTION_MAX_MS = 100 * 365 * 86_400_000


class HoldBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"version" | "from_version", "holder", "ttl_ms"?}``: one version, or it and all that
    follow."""

    holder: Annotated[str, msgspec.Meta(max_length=200)]
    version: NonNegativeExact | None = None
    from_version: NonNegativeExact | None = None
    ttl_ms: NonNegativeExact = _USUAL_TTL_MS


class VacuumBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"retention_ms"?, "dry_run"?}``; without a retention it is the table's."""

    retention_ms: Annotated[int, msgspec.Meta(ge=0, le=_RETENTION_MAX_MS)] | None = None
    dry_run: bool = False


class ShownPin(msgspec.Struct, frozen=True):
    """A pin as a caller may see it; ``last`` None: and all that follow; ``until_ms`` None: until it
    is taken away."""

    kind: str
    first: int
    last: int | None
    holder: str | UnsetType
    until_ms: int | None


class ShownMarks(msgspec.Struct, frozen=True):
    """Versions that vacuums leave whole: from ``readable_from`` on, and the versions in
    ``kept``."""

    readable_from: int
    kept: list[int]


class PinList(msgspec.Struct, frozen=True):
    """All pins of a table; ``whole``: the versions that earlier vacuums left."""

    table_id: str
    latest: int
    pins: list[ShownPin]
    whole: ShownMarks


class Vacuum(msgspec.Struct, frozen=True):
    """The limits of a vacuum: versions to leave, and files that are not older than
    ``files_before_ms``. ``before``: the limits of earlier vacuums."""

    table_id: str
    latest: int
    leaves: ShownMarks
    before: ShownMarks
    files_before_ms: int
    pins: list[ShownPin]


@routes.route(TABLE_BY_ID + "/pins", methods=["GET"])
@needs_table(read_table, of=uuid_of_path)
def pins(table_id: str) -> PinList:
    Query()
    plan = services().holds.plan(check_uuid(table_id))
    return PinList(plan.table_id, plan.latest, _pins_to_show(plan), _marks(plan.before))


@routes.route(TABLE_BY_ID + "/pins", methods=["POST"])
@needs_table(read_table, of=uuid_of_path)
def hold(table_id: str) -> ShownPin:
    Query()
    sent = body(HoldBody)
    if (sent.version is None) == (sent.from_version is None):
        raise InvalidRequest("give either version or from_version", field="version", remedy="exactly one of the two")
    first = sent.version if sent.version is not None else sent.from_version or 0
    principal = guard().principal.name
    pin = services().holds.hold(
        check_uuid(table_id), sent.holder, principal, first=first, last=sent.version, ttl_ms=sent.ttl_ms
    )
    note(table_id=table_id, first=pin.first, until=pin.until_ms)
    return _one(pin, pin.holder)


@routes.route(TABLE_BY_ID + "/pins/{holder}", methods=["DELETE"])
@needs_table(read_table, of=uuid_of_path)
def release(table_id: str, holder: str) -> None:
    Query()
    services().holds.release(check_uuid(table_id), holder, guard().principal.name)
    note(table_id=table_id)


@routes.route(TABLE_BY_ID + "/vacuums", methods=["POST"])
@needs_table(write_files, of=uuid_of_path)
def vacuum(table_id: str) -> Vacuum:
    Query()
    sent = body(VacuumBody)
    holds = services().holds
    plan = (holds.plan if sent.dry_run else holds.announce)(check_uuid(table_id), sent.retention_ms)
    note(table_id=table_id, readable_from=plan.marks.readable_from, dry_run=sent.dry_run)
    leaves = _marks(plan.marks)
    before = _marks(plan.before)
    return Vacuum(plan.table_id, plan.latest, leaves, before, plan.files_before_ms, _pins_to_show(plan))


def _pins_to_show(plan: VacuumPlan) -> list[ShownPin]:
    """The pins as the caller may see them: with the names of its own holders only."""
    principal = guard().principal
    return [_one(pin, pin.holder if principal.admin or pin.owner == principal.name else "") for pin in plan.pins]


def _one(pin: Pin, holder: str) -> ShownPin:
    return ShownPin(pin.kind, pin.first, pin.last, holder or UNSET, pin.until_ms)


def _marks(marks: Marks) -> ShownMarks:
    return ShownMarks(marks.readable_from, sorted(marks.kept))

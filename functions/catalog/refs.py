"""References of other systems over HTTP (docs/api.md, "References"). Glue only."""

from __future__ import annotations

import allowed
import msgspec
import shapes
from allowed import rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.access.core.rules import create_reference
from turnstile.api.http.answers import Answer
from turnstile.api.http.request import Query, body
from turnstile.api.http.rights import guard
from turnstile.coordination.core.named_ref import Entry, NamedRef
from turnstile.coordination.refs import NamedRefs, Written
from turnstile.store.core.errors import InvalidRequest

__all__ = ["named_refs", "routes"]

routes = Blueprint(__name__)

REF = "/v1/refs/{name}"

_JUDGED = rights.judged_inside("the reference's own rights")


class RefAnswer(msgspec.Struct, frozen=True):
    """A value of a reference; ``at`` when it was written (ms). ``outcome`` for what a request wrote."""

    name: str
    value: str
    version: int
    token: str
    at: int
    outcome: str | UnsetType = UNSET


class ValueAnswer(msgspec.Struct, frozen=True):
    """A remembered value."""

    value: str
    version: int
    token: str
    at: int


class HistoryAnswer(msgspec.Struct, frozen=True):
    """The values that a reference remembers, newest first; ``created`` in ms."""

    name: str
    created: int
    values: list[ValueAnswer]


@routes.route("/v1/refs", methods=["POST"])
@rights.needs((create_reference, allowed.metastore))
def create_ref() -> Answer:
    asked = body(shapes.NewRef)
    return Answer(_written(named_refs().create(asked.name, asked.value, asked.request_id)), 201)


@routes.route(REF, methods=["GET"])
@_JUDGED
def read_ref(name: str) -> RefAnswer:
    Query()
    return _answer(name, named_refs().read(name).current)


@routes.route(REF + "/history", methods=["GET"])
@_JUDGED
def ref_history(name: str) -> HistoryAnswer:
    Query()
    return _history(named_refs().read(name))


@routes.route(REF, methods=["POST"])
@_JUDGED
def swap_ref(name: str) -> RefAnswer:
    asked = body(shapes.RefSwap)
    return _written(named_refs().swap(name, asked.token, asked.value, asked.request_id))


@routes.route(REF, methods=["DELETE"])
@_JUDGED
def delete_ref(name: str) -> None:
    asked = Query("token", "request_id")
    token = asked.text("token")
    if token is None:
        raise InvalidRequest("token is missing", field="token", remedy="read the reference: it has its token")
    named_refs().delete(name, token, asked.text("request_id"))


def named_refs() -> NamedRefs:
    """The references, as whoever asks may see and change them: each is judged by its own row."""
    found, principal = services(), guard().principal
    guard().passed()
    return NamedRefs(found.world, principal, lambda: found.may_on_metastore(create_reference))


def _answer(name: str, entry: Entry) -> RefAnswer:
    return RefAnswer(name, entry.value or "", entry.version, entry.token, entry.at)


def _written(written: Written) -> RefAnswer:
    return msgspec.structs.replace(_answer(written.name, written.entry), outcome=written.outcome)


def _history(ref: NamedRef) -> HistoryAnswer:
    values = [ValueAnswer(one.value or "", one.version, one.token, one.at) for one in ref.history()]
    return HistoryAnswer(ref.name, ref.created, values)

"""References of other systems over HTTP (docs/api.md, "References"). Glue only."""

from __future__ import annotations

import allowed
import msgspec
import shapes
from allowed import rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.core.access_rules import nobody
from turnstile.core.errors import InvalidRequest
from turnstile.core.named_ref import Entry, NamedRef
from turnstile.services.refs_api import NamedRefs, Written
from turnstile_http.answers import Answer
from turnstile_http.bodies import body
from turnstile_http.params import Query

__all__ = ["routes"]

routes = Blueprint(__name__)

REF = "/v1/refs/{name}"


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
@rights.needs((nobody, allowed.metastore))
def create_ref() -> Answer:
    asked = body(shapes.NewRef)
    return Answer(_written(_refs().create(asked.name, asked.value, asked.request_id)), 201)


@routes.route(REF, methods=["GET"])
@rights.needs((nobody, allowed.metastore))
def read_ref(name: str) -> RefAnswer:
    Query()
    return _answer(name, _refs().read(name).current)


@routes.route(REF + "/history", methods=["GET"])
@rights.needs((nobody, allowed.metastore))
def ref_history(name: str) -> HistoryAnswer:
    Query()
    return _history(_refs().read(name))


@routes.route(REF, methods=["POST"])
@rights.needs((nobody, allowed.metastore))
def swap_ref(name: str) -> RefAnswer:
    asked = body(shapes.RefSwap)
    return _written(_refs().swap(name, asked.token, asked.value, asked.request_id))


@routes.route(REF, methods=["DELETE"])
@rights.needs((nobody, allowed.metastore))
def delete_ref(name: str) -> None:
    asked = Query("token", "request_id")
    token = asked.text("token")
    if token is None:
        raise InvalidRequest("token is missing", field="token", remedy="read the reference: it has its token")
    _refs().delete(name, token, asked.text("request_id"))


def _refs() -> NamedRefs:
    return NamedRefs(services().world)


def _answer(name: str, entry: Entry) -> RefAnswer:
    return RefAnswer(name, entry.value or "", entry.version, entry.token, entry.at)


def _written(written: Written) -> RefAnswer:
    return msgspec.structs.replace(_answer(written.name, written.entry), outcome=written.outcome)


def _history(ref: NamedRef) -> HistoryAnswer:
    values = [ValueAnswer(one.value or "", one.version, one.token, one.at) for one in ref.history()]
    return HistoryAnswer(ref.name, ref.created, values)

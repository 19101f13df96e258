"""References of other systems over HTTP (docs/api.md, "References")."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import authorized_by_view, guard, metastore, needs
from turnstile.api.http.request import Query, body
from turnstile.api.http.responses import Answer, answer_201
from turnstile.api.services import services
from turnstile.coordination.core.named_ref import Entry
from turnstile.coordination.refs import NamedRefs, WriteResult
from turnstile.rights.rules import create_reference
from turnstile.store.core.errors import InvalidRequest

routes = Blueprint(__name__)

REF = "/v1/refs/{name}"

_OWN_RIGHTS = authorized_by_view("the reference's own rights")


class NewRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/refs``."""

    name: str
    value: str
    request_id: str | None = None


class RefSwap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/refs/{name}``; ``token`` of the value that is to be replaced."""

    token: str
    value: str
    request_id: str | None = None


class RefResponse(msgspec.Struct, frozen=True):
    """A value of a reference; ``at`` when it was written (ms). ``outcome``: the result of a request
    that wrote it."""

    name: str
    value: str
    version: int
    token: str
    at: int
    outcome: str | UnsetType = UNSET


class RefValue(msgspec.Struct, frozen=True):
    """A remembered value."""

    value: str
    version: int
    token: str
    at: int


class RefHistory(msgspec.Struct, frozen=True):
    """The values that a reference remembers, newest first; ``created`` in ms."""

    name: str
    created: int
    values: list[RefValue]


@routes.route("/v1/refs", methods=["POST"])
@needs((create_reference, metastore))
def create_ref() -> Answer:
    request = body(NewRef)
    return answer_201(_ref_response(named_refs().create(request.name, request.value, request.request_id)))


@routes.route(REF, methods=["GET"])
@_OWN_RIGHTS
def read_ref(name: str) -> RefResponse:
    Query()
    return _response(name, named_refs().read(name).current)


@routes.route(REF + "/history", methods=["GET"])
@_OWN_RIGHTS
def ref_history(name: str) -> RefHistory:
    Query()
    ref = named_refs().read(name)
    values = [RefValue(entry.value or "", entry.version, entry.token, entry.at) for entry in ref.history()]
    return RefHistory(ref.name, ref.created, values)


@routes.route(REF, methods=["POST"])
@_OWN_RIGHTS
def swap_ref(name: str) -> RefResponse:
    request = body(RefSwap)
    return _ref_response(named_refs().swap(name, request.token, request.value, request.request_id))


@routes.route(REF, methods=["DELETE"])
@_OWN_RIGHTS
def delete_ref(name: str) -> None:
    query = Query("token", "request_id")
    token = query.text("token")
    if token is None:
        raise InvalidRequest("token is missing", field="token", remedy="read the reference: it has its token")
    named_refs().delete(name, token, query.text("request_id"))


def named_refs() -> NamedRefs:
    """Returns the references, as the principal may see and change them: the rights on each are in
    its own row."""
    here = services()
    principal = guard().principal
    guard().mark_authorized()
    return NamedRefs(here.world, principal, lambda: here.may_on_metastore(create_reference))


def _response(name: str, entry: Entry) -> RefResponse:
    return RefResponse(name, entry.value or "", entry.version, entry.token, entry.at)


def _ref_response(written: WriteResult) -> RefResponse:
    return msgspec.structs.replace(_response(written.name, written.entry), outcome=written.outcome)

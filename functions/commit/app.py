"""The hot path over HTTP: ratify, list ratified commits, load a table. Glue only: parse, call one operation, render.

docs/api.md is the contract, openapi/v1.yaml its formal description.
"""

from __future__ import annotations

from typing import Any

import proposals
import replies
import unity
from allowed import rights, table_of_path, uuid_of_path
from chalice.app import Chalice
from wiring import opened, services, use_world

from turnstile.access.core.rules import modify_table, read_table, see_table
from turnstile.api.auth.settings import authentication
from turnstile.api.http.env import in_lambda
from turnstile.api.http.handler import serve
from turnstile.api.http.request import MAX_BODY, Query, body
from turnstile.api.unity.errors import PREFIX, render
from turnstile.api.v1 import wire
from turnstile.delta.core.head import positioned
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION, check_identifier, check_namespace, check_uuid

__all__ = ["app", "rights", "use_world"]

api = Chalice(app_name="turnstile-commit", configure_logs=False)


@api.route("/v1/tables/{table_id}/commits", methods=["POST"])
@rights.needs_table(modify_table, of=uuid_of_path)
def commit(table_id: str) -> wire.Committed:
    request = proposals.to_request(check_uuid(table_id), body(proposals.Proposed))
    return replies.reply(services(), request, services().ratifier.commit(request))


@api.route("/v1/tables/{table_id}/commits", methods=["GET"])
@rights.needs_table(read_table, of=uuid_of_path)
def commits(table_id: str) -> wire.CommitList:
    query = Query("start", "end", "content")
    start, end = query.integer("start", 0), query.integer("end", MAX_VERSION)
    if end < start:
        raise InvalidRequest(f"end {end} is before start {start}", field="end", remedy="leave it out, or raise it")
    return wire.commit_list(services().commits.listed(check_uuid(table_id), start, end, content=query.flag("content")))


@api.route("/v1/tables/{table_id}/head", methods=["GET"])
@rights.needs_table(see_table, of=uuid_of_path)
def head(table_id: str) -> wire.Head:
    Query()
    found = services().commits.head(check_uuid(table_id))
    return wire.head(found, [wire.commit(place) for place in positioned(found)])


@api.route("/v1/tables/{table_id}/outcome", methods=["GET"])
@rights.needs_table(see_table, of=uuid_of_path)
def outcome(table_id: str) -> wire.OutcomeAnswer:
    query = Query("txn_id", "name", "version")
    found = services().outcomes.of(
        check_uuid(table_id),
        txn=query.text("txn_id") or "",
        name=query.text("name") or "",
        version=query.integer("version", least=1),
    )
    return wire.outcome(found)


@api.route("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", methods=["GET"])
@rights.needs((see_table, table_of_path))
def load(catalog: str, namespace: str, table: str) -> wire.LoadedTable:
    content = Query("content").flag("content")
    loaded = services().loader.load(
        check_identifier(catalog, "catalog"),
        check_namespace(namespace),
        check_identifier(table, "table"),
        content=content,
    )
    return wire.loaded_table(loaded)


@api.route("/v1", methods=["GET"])
@rights.for_everybody
def about() -> dict[str, Any]:
    Query()
    limits = services().limits
    return {
        "service": "turnstile",
        "version": _version(),
        "limits": {
            "inline_bytes": limits.inline_bytes,
            "staged_bytes": limits.staged_bytes,
            "body_bytes": MAX_BODY,
            "answer_content_bytes": limits.winners_bytes,
        },
    }


def _version() -> str:
    from importlib import metadata  # 20 ms that no other request needs

    try:
        return metadata.version("turnstile")
    except metadata.PackageNotFoundError:  # a layer may hold the packages without their metadata
        return "unknown"


api.register_blueprint(unity.routes)

app = serve(api, service="commit", authentication=authentication(), shapes={PREFIX: render})

if in_lambda():
    opened()

"""Refusals quote what was sent, and are answers all the same: a name of a megabyte does not make a
5xx of a 400, since Lambda sends 6 MB at most; nor does it fill the log."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.functions import Http
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, Iceberg
from tests.support.unity import B
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi
from turnstile.api.http.responses import MOST, brief, render
from turnstile.api.iceberg.errors import render as render_iceberg
from turnstile.api.unity.errors import render as render_unity
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict

BIG: Final = "\x7f" * 1_000_000
"""Python writes each as four characters, JSON the backslash as two, and Lambda as four."""

HALF: Final = BIG[:450_000]

BODIES: Final[dict[str, tuple[str, str, Any]]] = {
    "namespace": ("POST", NAMESPACES, {"name": BIG}),
    "catalog": ("POST", "/v1/catalogs", {"name": BIG}),
    "clone": ("POST", "/v1/catalogs/main/clones", {"from": BIG, "to": "x"}),
    "snapshot": ("POST", "/v1/catalogs/main/snapshots", {"name": BIG}),
    "rename": ("POST", DEFAULT + "/rename", {"name": BIG}),
    "reset": ("POST", "/v1/catalogs/main/reset", {"to": {"head": BIG}}),
    "merge": ("PATCH", DEFAULT, {"merge": {BIG: {"op": "add", "value": 2**70}}}),
    "both": ("PATCH", DEFAULT, {"set": {HALF: "1"}, "unset": [HALF]}),
    "member": ("PATCH", DEFAULT, {BIG: 1}),
    "uuid": ("POST", DEFAULT + "/tables", {"name": "x", "table_id": BIG}),
    "location": ("POST", DEFAULT + "/imports", {"name": "x", "location": BIG}),
    "gc": ("POST", "/v1/gc", {"kinds": [BIG]}),
    "owner": ("PATCH", "/v1/permissions/catalog/main", {"owner": BIG}),
    "unity": ("POST", f"{B}/schemas", {"name": BIG, "catalog_name": "main"}),
    "unity's catalog": ("POST", f"{B}/schemas", {"name": "x", "catalog_name": BIG}),
}


def short(http: Http, method: str, path: str, body: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """The text of a refusal that is one, and short in the answer and in the log."""
    sent = json.dumps(body, ensure_ascii=False)
    capsys.readouterr()
    answer = http.call(method, path, body=sent)
    assert 400 <= answer.status < 500 and answer.status != 413, answer.text[:300]
    assert len(answer.text) < 10_000
    told = capsys.readouterr()
    assert len(told.out + told.err) < 10_000
    return answer.text


@pytest.mark.parametrize("asked", BODIES)
def test_what_was_sent_is_quoted_at_the_beginning_only(
    api: CatalogApi, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    method, path, body = BODIES[asked]
    before = dict(api.world.refs.rows)
    short(api.http, method, path, body, capsys)
    assert api.world.refs.rows == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{MAIN}/namespaces", {"namespace": [BIG]}),
        (f"{SALES}/tables", {"name": BIG, "schema": SCHEMA}),
        (f"{SALES}/register", {"name": "x", "metadata-location": BIG}),
        (f"{SALES}/properties", {"updates": {HALF: "1"}, "removals": [HALF]}),
        (T1, {"requirements": [], "updates": [{"action": "set-location", "location": BIG}]}),
        (T1, {"requirements": [{"type": "assert-table-uuid", "uuid": BIG}], "updates": []}),
    ],
)
def test_icebergs_refusals_are_short_as_well(path: str, body: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client = Iceberg()
    client.create("t1")
    short(client.http, "POST", path, body, capsys)


def test_what_is_cut_ends_in_an_ellipsis_in_every_shape() -> None:
    for shape in (render, render_unity, render_iceberg):
        error = brief(InvalidRequest(BIG, field=BIG, remedy=BIG))
        body = shape(error, "GET", "/x", "c")[2].decode()
        assert "…" in body and len(body) < 4 * MOST
    assert brief(InvalidRequest("x" * MOST)).message == "x" * MOST
    assert len(brief(InvalidRequest("x" * (MOST + 1))).message) == MOST


def test_data_for_programs_is_not_cut() -> None:
    """Winners of a conflict come whole: a client rebases on their contents."""
    winners = [{"content": "x" * 100_000}]
    assert brief(StateConflict(ErrorType.COMMIT_VERSION_CONFLICT, "m", winners=winners)).details["winners"] == winners

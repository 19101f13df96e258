"""Commands on pins: their requests, and their output as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import run, service

TABLE = "11111111-1111-4111-8111-111111111111"
LOAD = "GET /v1/catalogs/main/namespaces/default/tables/t"
PATH = f"/v1/tables/{TABLE}/pins"
PINS: dict[str, Any] = {
    "table_id": TABLE, "latest": 9, "whole": {"readable_from": 7, "kept": [2]},
    "pins": [
        {"kind": "latest", "first": 9, "last": None, "until_ms": None},
        {"kind": "reader", "first": 2, "last": 2, "holder": "nightly", "until_ms": 1_770_000_000_000},
    ],
}  # fmt: skip


def test_list_shows_versions_and_holders() -> None:
    with service({LOAD: (200, {"table_id": TABLE}), f"GET {PATH}": (200, PINS)}) as canned:
        answer = json.loads(run("pins", "list", "default.t", "--url", canned.url, "-o", "json").stdout)
        assert answer == {"name": "main.default.t", **PINS}
        shown = run("pins", "list", "default.t", "--url", canned.url).stdout
    assert "9-" in shown and "nightly" in shown and "from 7 on" in shown


def test_hold_says_until_when_and_needs_one_version() -> None:
    with service({LOAD: (200, {"table_id": TABLE}), f"POST {PATH}": (200, PINS["pins"][1])}) as canned:
        ended = run("pins", "hold", "default.t", "--holder", "nightly", "--version", "2", "--url", canned.url)
        assert ended.exit_code == 0 and "versions 2 stay for nightly until" in ended.stdout
        refused = run("pins", "hold", "default.t", "--holder", "nightly", "--url", canned.url)
        assert refused.exit_code == 2


def test_release_names_the_holder() -> None:
    with service({LOAD: (200, {"table_id": TABLE}), f"DELETE {PATH}/nightly": (204, None)}) as canned:
        ended = run("pins", "release", "default.t", "--holder", "nightly", "--url", canned.url)
    assert ended.exit_code == 0 and "nightly holds nothing" in ended.stdout

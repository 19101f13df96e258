"""``turnstile fleet``: who shares the work, through the real handler and as the command shows it."""

from __future__ import annotations

import json
from typing import Any

from tests.support.access.realm import Realm
from tests.support.cli import run, service
from turnstile.fleet.member import Member

MEMBER: dict[str, Any] = {
    "id": "m1", "name": "host-a:17", "state": "active", "life": 4, "beat_ms": 1_000, "owned": 2, "loads": {"publish": 60},
    "joined_at": 1_770_000_000_000, "shown_at": 1_770_000_060_000,
}  # fmt: skip
REPORT: dict[str, Any] = {
    "members": [MEMBER],
    "granules": [
        {"name": "publish/0", "owner": "m1", "epoch": 1, "since": 1_770_000_000_000},
        {"name": "publish/1", "owner": "", "epoch": 2, "since": 1_770_000_000_000},
        {"name": "sweep/0", "owner": "m1", "epoch": 1, "since": 1_770_000_000_000},
    ],
    "roles": {"publish": 64, "sweep": 1},
    "migrations": 1,
}


def test_members_are_shown_with_what_they_own_as_text_and_as_json() -> None:
    with service({"GET /v1/fleet": (200, REPORT)}) as canned:
        assert json.loads(run("fleet", "--url", canned.url, "-o", "json").stdout) == REPORT
        shown = run("fleet", "--url", canned.url).stdout
    assert "host-a:17" in shown and "publish 1/64, sweep 1/1" in shown and "1 are nobody's" in shown


def test_where_nobody_shares_it_says_how_to() -> None:
    with service({"GET /v1/fleet": (200, {"members": [], "granules": [], "roles": {}, "migrations": 0})}) as canned:
        assert "serve --fleet" in run("fleet", "--url", canned.url).stdout


def test_i12_admins_see_the_fleet_and_nobody_else_does() -> None:
    realm = Realm()
    assert realm.must("GET", "/v1/fleet").json == {"members": [], "granules": [], "roles": {}, "migrations": 0}
    member = Member(
        realm.world,
        lambda: 0,
        name="host-a:17",
        granules={"publish": 4},
        beat_ms=1_000,
        alone_beat_ms=1_000,
    )
    member.beat()
    report = realm.must("GET", "/v1/fleet").json
    assert [shown["name"] for shown in report["members"]] == ["host-a:17"]
    assert report["roles"] == {"publish": 4} and {granule["owner"] for granule in report["granules"]} == {
        report["members"][0]["id"]
    }
    assert realm.ask("ann", "GET", "/v1/fleet").status == 403

"""``turnstile fleet``: who shares the work, through the real handler and as the command shows
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.cli import run, service
from turnstile.events.fleet_log import FleetLog, fleet_event
from turnstile.fleet.core.changes import JOINED, TAKEN_OVER, FleetChange
from turnstile.fleet.member import Member
from turnstile_cli.commands.fleet import with_silent_members

MEMBER: dict[str, Any] = {
    "id": "m1", "name": "host-a:17", "state": "active", "life": 4, "beat_ms": 1, "owned": 2,
    "loads": {"publish": 60, "sweep": 1},
    "granules": {"publish": 1, "sweep": 1}, "migrations": 7, "joined_at": 1_770_000_000_000,
    "shown_at": 1_770_000_060_000,
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
    "without_members": ["events", "maintain"],
}


NOBODY: dict[str, Any] = {"members": [], "granules": [], "roles": {}, "migrations": 0, "without_members": []}


def event(kind: str, member: str = "m1", **data: Any) -> dict[str, Any]:
    return {
        "id": "fleet/s/1", "source": "/v1/fleet", "type": f"turnstile.fleet.{kind}", "subject": member,
        "specversion": "1.0",
        "datacontenttype": "application/json", "time": "2026-02-02T04:40:00.123Z",
        "data": {"name": "host-a:17", "by": "m1", **data},
    }  # fmt: skip


def test_members_are_shown_with_what_they_own_as_text_and_as_json() -> None:
    with service({"GET /v1/fleet": (200, REPORT)}) as canned:
        assert json.loads(run("fleet", "--url", canned.url, "-o", "json").stdout) == REPORT
        shown = run("fleet", "--url", canned.url).stdout
    assert "host-a:17" in shown and "publish 1/64, sweep 1/1" in shown and "1 have no owner" in shown
    assert "publish 60, sweep 1" in shown and "no member works for maintain" in shown


def test_a_member_without_a_sign_of_life_between_two_readings_is_shown_as_silent() -> None:
    with service({"GET /v1/fleet": (200, REPORT)}) as canned:
        watched = ("fleet", "--watch", "--every", "0.1", "--url", canned.url)
        [document] = run(*watched, "-o", "json").stdout.splitlines()
        assert json.loads(document) == {**REPORT, "silent": ["m1"]}
        shown = run(*watched, "--count", "2").stdout
    assert shown.count("host-a:17") == 2 and "silent" in shown and "no member works for events" in shown


def test_a_member_that_has_shown_life_or_need_not_have_yet_is_not_silent() -> None:
    lives = {**REPORT, "members": [{**MEMBER, "life": 5}]}
    slow = {**REPORT, "members": [{**MEMBER, "beat_ms": 501}]}
    assert with_silent_members((0.0, REPORT), (1.0, lives))["silent"] == []
    assert with_silent_members((0.0, slow), (1.0, slow))["silent"] == []
    assert with_silent_members((0.0, REPORT), (0.002, REPORT))["silent"] == ["m1"]
    assert with_silent_members((0.0, {**REPORT, "members": []}), (1.0, REPORT))["silent"] == [], "it is new"


def test_events_are_shown_one_a_line() -> None:
    happened = [
        event("joined"),
        event("taken-over", role="publish", count=32, epochs=[2, 5], **{"from": "m0", "from_name": "host-b:3"}),
        event("claimed", role="sweep", count=1, epochs=[1, 1]),
        event("removed", "m0", name=""),
    ]
    page = {"events": happened, "cursor": "c1"}
    answers: dict[str, Any] = {
        "GET /v1/fleet/events?limit=1000&wait_s=0": (200, page),
        "GET /v1/fleet/events?limit=1000&after=c1&wait_s=0": (200, {"events": [], "cursor": "c1"}),
    }
    with service(answers) as canned:
        shown = run("fleet", "--events", "--url", canned.url).stdout.splitlines()
        documents = [
            json.loads(line) for line in run("fleet", "--events", "--url", canned.url, "-o", "json").stdout.splitlines()
        ]
    assert [line.split(maxsplit=2)[2] for line in shown] == [
        "joined       host-a:17",
        "taken-over   host-a:17  32 of publish, epochs 2 to 5, from host-b:3",
        "claimed      host-a:17  1 of sweep, epoch 1",
        "removed      m0",
    ]
    assert documents == [*happened, {"cursor": "c1"}]


@pytest.mark.parametrize("wrong", [("--events", "--watch"), ("--follow",), ("--after", "now")])
def test_options_that_do_not_go_together_are_refused(wrong: tuple[str, ...]) -> None:
    ended = run("fleet", "--url", "http://127.0.0.1:1", *wrong)
    assert ended.exit_code == 2 and "remedy" in ended.output


def test_without_a_fleet_it_says_how_to_share() -> None:
    with service({"GET /v1/fleet": (200, NOBODY)}) as canned:
        assert "serve --fleet" in run("fleet", "--url", canned.url).stdout


def test_i12_admins_see_the_fleet_and_no_other_principal_does() -> None:
    realm = Realm()
    assert realm.must("GET", "/v1/fleet").json == NOBODY
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
    assert report["members"][0]["granules"] == {"publish": 4} and report["members"][0]["migrations"] == 1
    assert report["without_members"] == ["sweep", "events", "maintain"]


def test_damaged_rows_of_members_are_named_beside_the_others() -> None:
    realm = Realm()
    members = [
        Member(realm.world, lambda: 0, name=name, granules={"publish": 4}, beat_ms=1_000, alone_beat_ms=1_000)
        for name in ("host-a:17", "host-b:18")
    ]
    for member in members:
        member.beat()
    key = realm.world.space.fleet_member(members[1].id)
    realm.world.refs.damage(key)
    report = realm.must("GET", "/v1/fleet").json
    assert [shown["name"] for shown in report["members"]] == ["host-a:17"]
    assert [row["key"] for row in report["unreadable"]] == [key]
    with service({"GET /v1/fleet": (200, report)}) as canned:
        shown = run("fleet", "--url", canned.url).stdout
    assert key in shown.replace("\n", "") and "host-a:17" in shown


def test_i12_admins_read_events_of_the_fleet_from_a_cursor_on_and_no_other_principal_does() -> None:
    realm = Realm()
    nothing = realm.must("GET", "/v1/fleet/events").json
    assert nothing["events"] == []
    happened = [FleetChange(JOINED, "m1"), FleetChange(TAKEN_OVER, "m1", "m0", "publish", 32, 2, 5)]
    names = {"m1": "host-a:17"}
    events = [fleet_event(f"fleet/s/{n}", each, "m1", names, 1_770_000_000_123) for n, each in enumerate(happened)]
    assert FleetLog(realm.world).append(events)
    page = realm.must("GET", "/v1/fleet/events", limit="1").json
    assert page["events"] == [event("joined") | {"id": "fleet/s/0", "time": "2026-02-02T02:40:00.123Z"}]
    rest = realm.must("GET", "/v1/fleet/events", after=page["cursor"]).json
    assert [each["data"] for each in rest["events"]] == [
        {
            "name": "host-a:17",
            "by": "m1",
            "role": "publish",
            "count": 32,
            "epochs": [2, 5],
            "from": "m0",
            "from_name": "",
        }
    ]
    assert (
        realm.must("GET", "/v1/fleet/events", after=nothing["cursor"]).json["events"] == page["events"] + rest["events"]
    )
    assert realm.must("GET", "/v1/fleet/events", after="now").json["events"] == []
    assert realm.ask("ann", "GET", "/v1/fleet/events").status == 403
    assert realm.ask("root", "GET", "/v1/fleet/events", after="nonsense").status == 400


def test_i12_events_of_the_fleet_cannot_be_read_as_events_of_a_catalog() -> None:
    realm = Realm()
    assert realm.ask("root", "GET", "/v1/events", catalog="(fleet)").status == 400


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("work", "--roles", "publish,catalogs"), "'catalogs' is no role of background work"),
        (("work", "--roles", "none"), "'none' is no role of background work"),
        (("work",), "there is no store at"),
        (("serve", "--roles", "none"), "a server that leaves work to others has to share it with them"),
    ],
)
def test_a_process_that_could_do_no_work_or_would_leave_it_undone_does_not_start(
    command: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    ended = run(*command, "--home", str(tmp_path / "home"), "--log-level", "WARNING")
    assert ended.exit_code == 1 and why in ended.output and "remedy" in ended.output
    assert not (tmp_path / "home").exists()

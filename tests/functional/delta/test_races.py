"""Many processes race for one table over HTTP on a server (I1, I2, I3, I4, I7, I11)."""

import json

import pytest

from benchmarks.racing import heats, racers, table

pytestmark = pytest.mark.slow


def test_800_racing_commits_are_acknowledged_once_each_and_published_as_acknowledged(server):
    raced = table.create(server.url, server.token, "race")
    heat = heats.run(raced, racers.named, 8, 100)
    assert heat.violations == []
    assert heat.commits == 800
    assert heat.conflicts > 0, "nobody raced"


def test_32_blind_appenders_never_see_a_conflict(server):
    appended = table.create(server.url, server.token, "appends", row_tracking=True)
    heat = heats.run(appended, racers.tickets, 4, 50, appenders=8)
    assert heat.violations == []
    assert heat.commits == 1600
    assert heat.conflicts == 0

    first_row = 0
    last = 0
    for version in range(1, 1601):
        actions = [json.loads(line) for line in appended.published(version).splitlines()]
        info = actions[0]["commitInfo"]
        add = next(action["add"] for action in actions if "add" in action)
        assert info["inCommitTimestamp"] > last, "I7: timestamps increase"
        assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (first_row, version), "row ids follow the order"
        first_row = first_row + table.ROWS
        last = info["inCommitTimestamp"]

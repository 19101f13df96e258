"""The version of the code, and the record of the versions that worked on a store."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.fakes.world import fake_world
from tests.support.functions import Http, function
from tests.support.repository import ROOT
from turnstile.api.doctor.checks import run
from turnstile.delta.attention import AttentionRow
from turnstile.delta.core.attention import RELEASES_MAX
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.writes import FORMAT, KNOWN
from turnstile_release import RELEASE, of_checkout, of_description, version


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (f"v{RELEASE}-0-g9c81052b", RELEASE),
        (f"v{RELEASE}-0-g9c81052b-dirty", f"{RELEASE}.dev938+g9c81052b.dirty"),
        (f"v{RELEASE}-4-g9c81052b", f"{RELEASE}.dev938+g9c81052b"),
        ("v0.0.9-4-g9c81052b", f"{RELEASE}.dev938+g9c81052b"),
        ("9c81052b", f"{RELEASE}.dev938+g9c81052b"),
        ("9c81052b-dirty", f"{RELEASE}.dev938+g9c81052b.dirty"),
    ],
)
def test_the_version_is_that_of_the_tag_or_names_the_commit(description: str, expected: str) -> None:
    assert of_description(description, "938") == expected


def test_all_distributions_are_on_the_way_to_the_same_release() -> None:
    for folder in ("layers", "http_client", "spark_client", "python_client", "."):
        assert tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["version"] == RELEASE


def test_a_checkout_says_which_commit_it_is(tmp_path: Path) -> None:
    commands = ("init -q", "-c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first")
    for command in commands:
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    told = of_checkout(tmp_path)
    assert told is not None
    assert re.fullmatch(rf"{re.escape(RELEASE)}\.dev1\+g[0-9a-f]{{8}}", told)
    shutil.rmtree(tmp_path / ".git")
    assert of_checkout(tmp_path) is None


def test_the_first_page_of_tables_says_which_version_swept_the_store_last() -> None:
    world = fake_world()
    catalog = function("catalog")
    catalog.use_world(world)
    http = Http(catalog.app)
    assert "release" not in http.get("/v1/tables").json
    for release in ("0.1.0", "0.2.0"):
        Sweeper(world, Publisher(world), release).sweep(until_ms=world.clock.now_ms() + 60_000, each_ms=60_000)
    answer = http.get("/v1/tables").json
    day = datetime.fromtimestamp(world.clock.now / 1000, UTC).date().isoformat()
    assert answer["release"] == {"version": "0.2.0", "since": day}
    assert "release" not in http.get("/v1/tables", page_token=str(uuid.UUID(int=0))).json
    row = world.refs.rows[world.space.attention()]
    row[FORMAT[0]] = KNOWN + 1
    assert "release" not in http.get("/v1/tables").json, "of a newer release"
    world.refs.damage(world.space.attention())
    assert "release" not in http.get("/v1/tables").json


def test_a_store_remembers_which_versions_of_the_code_swept_it() -> None:
    world = fake_world()
    for release in ("0.1.0", "0.2.0", "0.1.0", "0.2.0"):
        sweeper = Sweeper(world, Publisher(world), release)
        for _ in range(2):
            sweeper.sweep_part(until_ms=world.clock.now_ms() + 60_000, each_ms=60_000, rows_max=10, workers=1)
    releases = AttentionRow(world).read().releases
    assert [one.partition(" ")[0] for one in releases] == ["0.1.0", "0.2.0"]
    [check] = [check for check in run(world, "file:///lake").checks if check.name == "releases"]
    assert check.message.startswith(f"this is {version()}; the store was swept by 0.1.0 since ")


def test_a_store_remembers_a_bounded_number_of_versions() -> None:
    row = AttentionRow(fake_world())
    for number in range(RELEASES_MAX + 5):
        row.add_release(row.read(), f"0.{number}.0", "2026-11-26")
    assert len(row.read().releases) == RELEASES_MAX
    assert row.read().releases[-1] == f"0.{RELEASES_MAX + 4}.0 2026-11-26"

"""The console that is served is the one that the sources make: what ``make console`` built says of
which sources."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.support.repository import ROOT, tracked
from turnstile_server.console import SITE

CONSOLE = ROOT / "console"
MOST_BYTES = 1_500_000
OWN = ("index.html", "package-lock.json", "package.json", "vite.config.ts")


def sources() -> list[str]:
    """What decides on the build, in the order of the paths, as ``recordSources`` of vite.config.ts
    has it."""
    found = [path.removeprefix("console/") for path in tracked() if path.startswith("console/src/")]
    return sorted([*found, *OWN])


def test_the_build_is_that_of_the_sources() -> None:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.encode() + b"\0" + (CONSOLE / path).read_bytes() + b"\0")
    assert (SITE / "sources.sha256").read_text().strip() == digest.hexdigest(), "run: make console"


def test_the_build_is_small_and_whole() -> None:
    files = [path for path in SITE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    page = (SITE / "index.html").read_text()
    named = [part.split('"')[0] for part in page.split('"/ui/')[1:]]
    assert any(name.endswith(".js") for name in named)
    assert [name for name in named if not (SITE / name).is_file()] == []


def test_the_lock_names_exact_versions_and_no_address() -> None:
    lock = json.loads((CONSOLE / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all("resolved" not in entry and entry.get("integrity") for entry in packages.values())
    asked = json.loads((CONSOLE / "package.json").read_text())
    for name, version in (asked["dependencies"] | asked["devDependencies"]).items():
        assert packages[f"node_modules/{name}"]["version"] == version, name


def test_every_package_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    asked = json.loads((CONSOLE / "package.json").read_text())
    assert [name for name in asked["dependencies"] | asked["devDependencies"] if f"`{name}`" not in page] == []


def test_nothing_that_is_installed_is_tracked() -> None:
    assert [path for path in tracked() if "node_modules" in Path(path).parts] == []

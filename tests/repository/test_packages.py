"""A package that is installed by name comes from a public index, where any user may take a name:
docs name our packages by path, as wheels or a checkout."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

PREFIX: Final = "turnstile-lake"
OURS: Final = re.compile(r"turnstile(?:-[a-z-]+)?(?:\[[\w,]+\])?(?:[=<>~!].*)?$")
SAID: Final = re.compile(r"\b(?:pip3?|pipx|uv|poetry|conda|mamba)\s+(?:pip\s+)?(?:install|add)\b([^\n`]*)")
"""A command that installs; its words follow, up to the end of the line or of the code."""
ALLOWED: Final = {"CHANGELOG.md", "docs/decisions", "requirements"}
"""History, and the lock."""


def pages() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = (".md", ".py", ".tsx", ".ts", ".toml", ".yaml", ".yml", ".txt", "Dockerfile", ".sh", ".service")
    return [
        ROOT / name
        for name in names.strip("\0").split("\0")
        if name.endswith(kinds) and not any(name.startswith(one) for one in ALLOWED) and not name.startswith("tests/")
    ]


def by_name(text: str) -> list[str]:
    """The names of ours that the commands of a text take from an index."""
    words = [word.strip("'\"(),;.") for said in SAID.findall(text) for word in said.split()]
    return [word for word in words if OURS.match(word)]


def test_no_text_installs_ours_by_name() -> None:
    found = {str(page.relative_to(ROOT)): names for page in pages() if (names := by_name(page.read_text()))}
    assert not found, "install these from ./... or from a wheel: nobody says that the index has ours under this name"


def test_no_page_gives_ours_by_name_to_a_platform_that_installs_modules() -> None:
    modules = re.compile(r"additional-python-modules`[^\n]*\|\s*`turnstile")
    assert not [str(page.relative_to(ROOT)) for page in pages() if modules.search(page.read_text())]


@pytest.mark.parametrize("folder", [".", "layers", "http_client", "spark_client", "python_client"])
def test_distributions_have_names_of_one_prefix_that_are_free(folder: str) -> None:
    """None of them was on the public index on 2026-11-27; `turnstile` was, and is another
    project's."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    assert re.fullmatch(rf"{PREFIX}(-[a-z]+)?", project["name"])
    extras = [name for names in project.get("optional-dependencies", {}).values() for name in names]
    for needed in (*project.get("dependencies", ()), *extras):
        assert not needed.startswith("turnstile") or needed.startswith(f"{PREFIX}-"), needed


def test_the_search_finds_each_way_of_saying_it() -> None:
    for said in (
        "pip install turnstile",
        "pip install 'turnstile[server]'",
        "RUN pip install turnstile-lake-spark",
        "python3 -m pip install -U turnstile-client==0.1",
        "uv pip install turnstile",
        "uv add turnstile",
    ):
        assert by_name(said), said
    for said in (
        "pip install ./layers '.[server]'",
        "pip install polars",
        "pip install dist/turnstile_lake-0.1.0-py3-none-any.whl",
    ):
        assert not by_name(said), said

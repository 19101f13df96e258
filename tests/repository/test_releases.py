"""Each release has a store that its code wrote, for the code of later releases to open."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.support.earlier.archive import stored
from tests.support.repository import ROOT

CODE: Final = ("layers", "server")
"""Folders with the code that writes a store."""


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)


def has_code_of(root: Path, tag: str, commit: str) -> bool:
    """Whether the code that writes stores is the same at both; False for an unknown commit."""
    return git(root, "diff", "--quiet", commit, tag, "--", *CODE).returncode == 0


def releases_without_store(root: Path, commits: Iterable[str]) -> list[str]:
    """The tags of releases whose code is not that of one of these commits, which wrote stores."""
    tags = git(root, "tag", "--list", "v*").stdout.split()
    wrote = list(commits)
    return [tag for tag in tags if not any(has_code_of(root, tag, commit) for commit in wrote)]


def commits_with_stores() -> list[str]:
    return [path.name.partition(".")[0].rpartition("-")[2] for path in stored()]


def test_each_release_has_a_store_that_its_code_wrote() -> None:
    assert len(commits_with_stores()) >= 6
    found = releases_without_store(ROOT, commits_with_stores())
    assert found == [], "python -m tests.support.earlier CHECKOUT DATE-COMMIT adds one (CONTRIBUTING.md)"


@pytest.mark.parametrize(("changed", "expected"), [("docs/a.md", []), ("layers/a.py", ["v0.1.0"])])
def test_a_release_without_a_store_would_be_noticed(changed: str, expected: list[str], tmp_path: Path) -> None:
    commits = []
    git(tmp_path, "init", "--quiet")
    for name in ("layers/a.py", changed):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"change {len(commits)}\n")
        git(tmp_path, "add", "--all")
        git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "change")
        commits.append(git(tmp_path, "rev-parse", "--short=8", "HEAD").stdout.strip())
    git(tmp_path, "tag", "v0.1.0")
    assert releases_without_store(tmp_path, [commits[0]]) == expected
    assert releases_without_store(tmp_path, ["00000000"]) == ["v0.1.0"]

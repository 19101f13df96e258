"""The ways into the project: make targets, the CI script, packaging."""

import os
import re
import subprocess
import tomllib

from tests.support.repository import ROOT, tracked

MAKEFILE = (ROOT / "Makefile").read_text()


def test_make_help_lists_the_targets_that_people_use():
    shown = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for target in (
        *("setup", "demo", "test", "test-quick", "test-spark", "check", "lint", "types", "imports"),
        *("simulate", "bench", "lock", "clean", "up", "down"),
    ):
        assert re.search(rf"\b{target}\b", shown), target


def test_ci_is_one_script_that_can_be_run_anywhere():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert not re.search(r"[\s\"'=]/(?!dev/null|usr/bin/env)[a-z]+/", text)
    for target in ("setup", "lint", "types", "imports"):
        assert target in text


def test_hooks_download_nothing():
    repositories = re.findall(r"^ *- repo: (\S+)", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert set(repositories) == {"local"}


def test_every_folder_with_modules_is_a_package_that_the_wheel_will_hold():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = project["tool"]["setuptools"]["packages"]["find"]["where"]
    files = [name for name in tracked() if name.endswith(".py") and name.split("/")[0] in roots]
    folders = {name.rsplit("/", 1)[0] for name in files}
    folders -= set(roots)
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").is_file()] == []

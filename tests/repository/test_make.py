"""The ways into the project: make targets, the CI script, packaging."""

import itertools
import os
import re
import subprocess
import tomllib

import pytest
from _pytest.mark.expression import Expression

from tests.support.ci.long import LONG
from tests.support.repository import ROOT, tracked

MAKEFILE = (ROOT / "Makefile").read_text()


def test_make_help_lists_the_targets_that_people_use():
    shown = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    for target in (
        *("setup", "demo", "test", "test-all", "test-quick", "test-spark", "check", "lint", "types", "imports"),
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


def groups(target):
    """The marker expressions by which the groups of a target select tests, less those of the
    mutants."""
    steps = subprocess.run(["make", "--dry-run", target], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    commands = [line for line in steps.splitlines() if "-m pytest" in line]
    commands = [line for line in commands if "--collect-only" not in line and " tests/mutation ||" not in line]
    return [re.search(r'-m "([^"]+)"', command)[1] for command in commands]


def test_every_test_is_in_one_group_of_make_test_or_of_make_test_all():
    usual = groups("test")
    longer = groups("test-all")
    assert len(usual) == len(longer) == 2
    for spark, slow, stack in itertools.product((True, False), repeat=3):
        marks = {"spark": spark, "slow": slow, "stack": stack}
        chosen = [
            expression for expression in usual + longer if Expression.compile(expression).evaluate(marks.__getitem__)
        ]
        assert len(chosen) == 1, (marks, chosen)
        assert (chosen[0] in longer) == slow


@pytest.mark.parametrize("entry", LONG)
def test_what_make_test_quick_leaves_out_exists(entry):
    path, _, name = entry.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text() if name else (ROOT / path).exists()


def test_make_test_quick_is_a_part_of_make_test():
    (quick,) = groups("test-quick")
    usual = groups("test")
    for marks in itertools.product((True, False), repeat=4):
        names = dict(zip(("spark", "slow", "stack", "long"), marks, strict=True))
        if Expression.compile(quick).evaluate(names.__getitem__):
            assert any(Expression.compile(one).evaluate(names.__getitem__) for one in usual), names


def test_make_test_spark_collects_every_folder_with_tests_of_spark_that_are_not_slow():
    folders = re.search(r"^SPARK := (.+)$", MAKEFILE, re.MULTILINE)[1].split()
    outside = [
        path for path in (ROOT / "tests").rglob("test_*.py") if path.relative_to(ROOT / "tests").parts[0] not in folders
    ]
    texts = {path: path.read_text() for path in outside if path.name != "test_make.py"}
    marked = {path for path, text in texts.items() if "mark.spark" in text or re.search(r"\bspark: Any", text)}
    assert marked, "the test must not be vacuous"
    assert {path for path in marked if "mark.slow" not in texts[path]} == set()


def test_make_clean_leaves_the_lake_and_the_catalog_of_a_user(tmp_path):
    kept = [tmp_path / ".turnstile" / name for name in ("turnstile.db", "lake/main/t/__pycache__/1.parquet")]
    for path in (*kept, tmp_path / "build" / "left", tmp_path / "tests" / "__pycache__" / "left"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    makefile = tmp_path / "Makefile"
    makefile.write_text(MAKEFILE)
    subprocess.run(["make", "-f", str(makefile), "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [makefile, *kept]


def test_ci_ends_with_the_tests_of_the_readme():
    (targets,) = re.findall(r"for target in (.+); do", (ROOT / ".ci" / "run").read_text())
    assert targets.split()[-1] == "test"


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

"""The second run of failed tests that start processes (.ci/run)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ci.processes import direct_starts, names_of_tests
from tests.support.ci.second_chance import MARKER, VARIABLE, Records, starts_processes
from tests.support.repository import ROOT

TESTS = ROOT / "tests"
FUNCTIONAL = TESTS / "functional"


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("spark/test_a.py", "test_a", True),
        ("e2e/test_a.py", "test_a", True),
        ("contract/store/test_a.py", "servers", False),
        ("unit/store/test_a.py", "server", False),
        ("simulation/test_a.py", "test_a", False),
        ("functional/auth/test_stack.py", "guarded", True),
        ("functional/access/test_stack.py", "realm", True),
        ("functional/delta/test_publish_stack_crashes.py", "own_stack", True),
        ("functional/v1/test_load.py", "lake", False),
    ],
)
def test_only_tests_that_start_processes_get_a_second_chance(path: str, name: str, expected: bool) -> None:
    assert starts_processes(TESTS / path, (name,), TESTS) is expected


SUPPORT = """
import subprocess
from turnstile_server import Server
class Lake:
    def __init__(self):
        self.server = Server.start("home")
def run():
    subprocess.run(["true"])
def count(server: Server) -> int:
    return 1
"""
MODULE = """
from tests.support import lakes
from tests.support.lakes import Lake, count, run
@pytest.fixture
def lake():
    yield Lake()
@pytest.fixture(params=["shared"])
def each(request):
    return request.getfixturevalue(request.param)
def helper():
    return run()
def case_by_a_fixture(lake): pass
def case_by_a_fixture_above(shared): pass
def case_by_the_name_of_a_fixture(each): pass
def case_by_a_helper(): helper()
def case_by_a_module(): lakes.run()
def case_without(other, server: Lake): count(other)
"""


def test_a_start_is_found_through_fixtures_helpers_and_support_modules(tmp_path: Path) -> None:
    root = tmp_path / "tests"
    module = root / "functional" / "test_a.py"
    for path, text in (
        (root / "support" / "lakes.py", SUPPORT),
        (root / "conftest.py", "from tests.support.lakes import Lake\ndef shared(): return Lake()\n"),
        (module, MODULE),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    cases = re.findall(r"def (case_\w+)", MODULE)
    assert len(cases) == 6
    found = [name for name in cases if starts_processes(module, (name,), root)]
    assert found == [name for name in cases if name != "case_without"]


def test_no_functional_module_that_starts_a_process_is_left_out() -> None:
    """Some test of it gets a second chance, or its start is one that no test reaches."""
    modules = [path for path in sorted(FUNCTIONAL.rglob("test_*.py")) if direct_starts(path)]
    assert len(modules) > 15
    left_out = [
        str(path.relative_to(TESTS))
        for path in modules
        if not any(starts_processes(path, (name,), TESTS) for name in names_of_tests(path))
    ]
    assert left_out == []


@pytest.mark.parametrize("fixture", ["server", "server_on_s3", "stack", "s3_stack", "servers", "spark"])
def test_the_fixtures_of_all_tests_start_processes(fixture: str) -> None:
    assert starts_processes(FUNCTIONAL / "v1" / "test_load.py", (fixture,), TESTS)


CASES = """
import os, pathlib, pytest
KEPT = pathlib.Path(__file__).with_name("kept")

@pytest.mark.processes
def case_passes_alone():
    again = KEPT.exists()
    KEPT.touch()
    assert again, "the machine was busy"

@pytest.mark.processes
def case_never_passes():
    assert not os.environ.get("BROKEN")

def case_without_processes():
    assert not os.environ.get("WRONG")
"""


def recorded(folder: Path, **variables: str) -> tuple[Records, subprocess.CompletedProcess[str], str]:
    """Runs the cases with records, then the second chance; returns both and the list of flaky
    tests."""
    (folder / "test_cases.py").write_text(CASES)
    (folder / "pytest.ini").write_text("[pytest]\npython_functions = case_*\n")
    (folder / "conftest.py").write_text(
        "import os, pathlib\nfrom tests.support.ci.second_chance import VARIABLE, Recorder\n"
        "def pytest_configure(config):\n"
        f"    config.addinivalue_line('markers', '{MARKER}: x')\n"
        "    if os.environ.get(VARIABLE):\n"
        "        config.pluginmanager.register(Recorder(pathlib.Path(os.environ[VARIABLE])))\n"
    )
    records = folder / "records"
    flaky = folder / "flaky.txt"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("PYTEST_ADDOPTS", None)
    first = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cases.py"]
    subprocess.run(first, cwd=folder, env={**environment, VARIABLE: str(records)}, check=False, capture_output=True)
    again = subprocess.run(
        [sys.executable, "-m", "tests.support.ci.second_chance", str(records), str(flaky)],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return Records.read(records), again, flaky.read_text() if flaky.exists() else ""


def test_a_test_that_passes_alone_is_listed_as_flaky_and_fails_nothing(tmp_path: Path) -> None:
    records, again, flaky = recorded(tmp_path)
    assert list(records.failed) == ["test_cases.py::case_passes_alone"]
    assert again.returncode == 0, again.stdout + again.stderr
    assert "flaky: test_cases.py::case_passes_alone" in again.stdout
    assert "case_passes_alone\n" in flaky
    assert "the machine was busy" in flaky


@pytest.mark.slow
def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    _, again, flaky = recorded(tmp_path, BROKEN="1")
    assert again.returncode == 1
    assert "failed: test_cases.py::case_never_passes" in again.stdout
    assert "case_never_passes" not in flaky


def test_a_test_without_processes_gets_no_second_chance(tmp_path: Path) -> None:
    records, again, _ = recorded(tmp_path, WRONG="1")
    assert records.final == ["test_cases.py::case_without_processes"]
    assert again.returncode == 1


def test_a_session_that_a_test_starts_records_nothing(tmp_path: Path) -> None:
    """The tests of mutants fail on purpose, in sessions of their own."""
    options = ["-q", "-p", "no:cacheprovider", "--collect-only", "tests/repository/test_licences.py"]
    environment = {**os.environ, VARIABLE: str(tmp_path / "records")}
    program = f"import os, sys, pytest; pytest.main({options!r}); print('inherited', os.environ.get({VARIABLE!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert "inherited None" in done.stdout, done.stdout + done.stderr
    assert Records.read(tmp_path / "records").exits == [0]


@pytest.mark.parametrize(("exits", "expected"), [([0, 1], True), ([0, 2], False), ([5], False), ([], False)])
def test_a_session_that_did_not_come_to_its_end_fails_the_run(exits: list[int], expected: bool, tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_text("".join(json.dumps({"exit": one}) + "\n" for one in exits))
    assert Records.read(path).ended is expected

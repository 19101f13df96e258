"""What the deployment's test leans on: errors in logs are noticed, and a machine that cannot have
the root says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.deployment import root
from tests.support.deployment.stack import errors_in, longest_start_s
from tests.support.downloads import Missing

RIGHT = ['{"level": "INFO", "message": "sweep"}', '{"level": "WARNING", "message": "late"}', '{"_aws": {}}', ""]


@pytest.mark.parametrize(
    "line",
    [
        '{"level": "ERROR", "message": "no"}',
        '{"level": "CRITICAL", "message": "no"}',
        '{"errorType": "Runtime.ExitError"}',
        "Traceback (most recent call last):",
        "7",
    ],
)
def test_an_error_in_a_log_is_noticed(tmp_path: Path, line: str) -> None:
    (tmp_path / "commit-1.log").write_text("\n".join(RIGHT))
    assert errors_in(tmp_path) == {}
    (tmp_path / "sweep-1.log").write_text("\n".join([*RIGHT, line]))
    assert errors_in(tmp_path) == {"sweep-1": [line]}


def test_a_cold_start_is_the_process_and_its_first_call(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text(
        '{"sandbox": "a", "event": "start", "ms": 1000}\n{"sandbox": "a", "event": "first call", "ms": 500}\n'
        '{"sandbox": "a", "event": "call", "ms": 9000}\n{"sandbox": "b", "event": "start", "ms": 1200}\n'
    )
    assert longest_start_s(tmp_path / "figures") == 1.5


def test_a_user_that_may_not_mount_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing, match="run it as root"):
        root.make()


def test_a_machine_without_mounts_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Missing, match="no mounts"):
        root.make()


def test_figures_of_a_run_are_an_error_unless_the_next_run_mends_all_its_problems(tmp_path: Path) -> None:
    log = tmp_path / "sweep-1.log"
    figures = json.dumps({"_aws": {}, "level": "ERROR", "failures": 1})
    unknown = json.dumps({"level": "WARNING", "run": "sweep", "problem": {"type": "CommitStateUnknown"}})
    lost = json.dumps({"level": "WARNING", "run": "sweep", "problem": {"type": "ContentMissing"}})
    log.write_text(f"{unknown}\n{figures}\n")
    assert errors_in(tmp_path) == {}
    log.write_text(f"{unknown}\n{lost}\n{figures}\n")
    assert errors_in(tmp_path) == {"sweep-1": [unknown, lost, figures]}
    log.write_text(f"{figures}\n")
    assert errors_in(tmp_path) == {"sweep-1": [figures]}

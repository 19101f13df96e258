"""I12: LocalEmu's evaluation of policies agrees with the one that judges the recorded calls
(tests/functional/deploy/test_recorded_calls.py)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployment import root
from tests.support.downloads import Missing
from tests.support.repository import ROOT
from tests.support.roles.policies import Call, Role, refused
from tests.support.roles.recorded import FUNCTIONS, recorded_calls
from tests.support.store.servers import Servers

pytestmark = pytest.mark.slow


def verdicts(cases: list[tuple[Role, list[Call]]], folder: Path) -> list[list[Call]]:
    """Returns the refused calls of each case."""
    try:
        made = root.make()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: a second judge of roles; {missing}")
    given: list[dict[str, Any]] = [
        {
            "policies": [{"Version": "2012-10-17", "Statement": statements} for statements in role.statements.values()],
            "calls": [
                {"action": one.action, "resource": one.resource, "keys": one.keys, "context": one.context}
                for one in calls
            ],
        }
        for role, calls in cases
    ]
    script = folder / "judge.py"
    script.write_text((ROOT / "tests/support/deployment/second_judge.py").read_text())
    command = made.command([made.program("localemu", "python"), str(script)], folders=[folder], variables={}, at=folder)
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    numbers = json.loads(done.stdout)
    return [[calls[number] for number in each] for (_, calls), each in zip(cases, numbers, strict=True)]


def test_i12_both_judges_allow_every_recorded_call_and_refuse_the_same_ones_without_any_statement(
    servers: Servers, tmp_path: Path
) -> None:
    with recorded_calls(servers) as recorded:
        cases = [(recorded.roles[name], recorded.calls[name]) for name in FUNCTIONS]
        whole = len(cases)
        cases += [
            (role.without(where), recorded.calls[name])
            for name, role in recorded.roles.items()
            for where in role.allowing()
        ]
        print(recorded.summary())
    found = verdicts(cases, tmp_path)
    assert found[:whole] == [[] for _ in range(whole)]
    differing = [
        (role.name, sorted({(one.action, one.resource, one.keys) for one in set(ours) ^ set(theirs)}))
        for (role, calls), theirs in zip(cases, found, strict=True)
        if (ours := refused(dict.fromkeys(FUNCTIONS, role), calls)) != theirs
    ]
    assert differing == []
    print(f"{sum(len(calls) for _, calls in cases[:whole])} calls, {len(cases) - whole} statements left out in turn")

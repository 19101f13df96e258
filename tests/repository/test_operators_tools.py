"""The files for operators of servers, judged by the tools that take them: promtool, Helm, the
schema of compose files, Kubernetes' schemas. A tool that cannot be had skips its test.
``test_server_operation.py`` judges the same files without tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from tests.support.deployment import tools
from tests.support.deployment.tools import CASES, CHART, FOLDER, RENDERED
from tests.support.downloads import Missing
from tests.support.repository import ROOT

SITUATIONS: Final = ROOT / "tests/data/alerts_test.yaml"
pytestmark = pytest.mark.slow


def tool(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")


def said(*command: str | Path) -> str:
    """The output of a command that succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_rules_and_the_configuration(tmp_path: Path) -> None:
    promtool = tool(tools.promtool)
    assert "11 rules found" in said(promtool, "check", "rules", FOLDER / "alerts.yaml")
    for name in ("alerts.yaml", "prometheus.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    said(promtool, "check", "config", "--syntax-only", tmp_path / "prometheus.yaml")


def test_prometheus_takes_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    """As rules that record them, with a value for each variable of the dashboard."""
    panels = json.loads((FOLDER / "dashboards/turnstile.json").read_text())["panels"]
    shown = [re.sub(r"\$__rate_interval", "5m", target["expr"]) for panel in panels for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(shown)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in said(tool(tools.promtool), "check", "rules", file)


def test_each_alert_fires_in_its_situation_and_none_while_all_is_well(tmp_path: Path) -> None:
    situations = tmp_path / "situations.yaml"
    situations.write_text(SITUATIONS.read_text().replace("[ALERTS]", f"[{FOLDER / 'alerts.yaml'}]"))
    said(tool(tools.promtool), "test", "rules", situations)


def test_the_compose_file_has_the_form_of_the_specification() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    schema = tool(tools.compose_schema)
    judge = jsonschema.validators.validator_for(schema)(schema)
    assert not [error.message for error in judge.iter_errors(compose)]
    compose["services"]["turnstile"]["stop_grace"] = "30s"
    assert list(judge.iter_errors(compose))


def helm(values: list[str]) -> subprocess.CompletedProcess[str]:
    words = [word for value in values for word in ("--set", value.replace(",", "\\,"))]
    command = [tool(tools.helm), "template", "lake", CHART, "--namespace", "data", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CASES)
def test_helm_makes_of_the_chart_what_is_kept(name: str) -> None:
    done = helm(CASES[name])
    assert done.returncode == 0, done.stderr
    assert done.stdout == (RENDERED / f"{name}.yaml").read_text()


@pytest.mark.parametrize(
    ("values", "refusal"), [(["replicas=2"], "several replicas need store"), (["workers=1"], "workers need")]
)
def test_a_chart_that_would_give_one_file_to_several_is_refused(values: list[str], refusal: str) -> None:
    done = helm(values)
    assert done.returncode != 0 and refusal in done.stderr


def test_helm_finds_no_fault_with_the_chart() -> None:
    assert "0 chart(s) failed" in said(tool(tools.helm), "lint", "--strict", CHART)


@pytest.mark.parametrize("name", CASES)
def test_kubernetes_takes_what_the_chart_makes(name: str, tmp_path: Path) -> None:
    validate = tool(tools.kubernetes_validate)
    said(validate, "--strict", RENDERED / f"{name}.yaml")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((RENDERED / f"{name}.yaml").read_text().replace("containerPort:", "containerPorts:"))
    done = subprocess.run([validate, "--strict", wrong], capture_output=True, text=True, check=False)
    assert done.returncode, done.stdout

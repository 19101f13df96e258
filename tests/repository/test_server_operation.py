"""The files for operators of servers, in infra/server: alert rules, a dashboard, a compose file, a
unit, a chart. Each names metrics, settings and files that exist. The tools that take them judge
them in ``test_operators_tools.py``."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from typer.main import get_command

from tests.support.deployment.tools import CASES, CHART, FOLDER, RENDERED
from tests.support.repository import ROOT
from turnstile_cli.main import program
from turnstile_server.telemetry import metrics
from turnstile_server.telemetry.conflicts import ConflictLog

FUNCTIONS: Final = frozenset(
    {"up", "max", "sum", "rate", "increase", "time", "by", "le", "histogram_quantile", "topk", "label_values", "job"}
)
TARGET_LABELS: Final = frozenset({"job", "instance", "le"})
SUFFIXES: Final = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


@cache
def exported() -> dict[str, frozenset[str]]:
    """The series that a server exports, with their labels."""
    parts = [
        metrics.RequestMetrics(ConflictLog(Path("/nonexistent"))),
        *(one() for one in (metrics.ForwardingMetrics, metrics.FleetMetrics, metrics.BackgroundMetrics)),
        *(one() for one in (metrics.LightWorkMetrics, metrics.DeliveryMetrics)),
    ]
    figures = [value for part in parts for value in vars(part).values() if isinstance(value, MetricWrapperBase)]
    return {
        figure._name + suffix: frozenset(figure._labelnames) | TARGET_LABELS
        for figure in figures
        for suffix in SUFFIXES[figure._type]
    }


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "dashboards/turnstile.json").read_text()))


def expressions() -> list[str]:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    return [*(rule["expr"] for rule in alerts()), *shown, *(one["query"] for one in dashboard()["templating"]["list"])]


def problems_of(expression: str) -> list[str]:
    """Returns the series, and labels of series, in an expression that no server exports."""
    found = []
    for name, matchers in re.findall(r"\b(turnstile_\w+)(?:\{([^}]*)\})?", expression):
        if name not in exported():
            found.append(f"{name} is no figure of a server")
            continue
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', matchers))
        labels += [label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)]
        found += [f"{name} has no label {label}" for label in labels if label not in exported()[name]]
    words = set(re.findall(r"[a-z_]+(?=\s*\()", re.sub(r'"[^"]*"', '""', expression)))
    return [*found, *(f"{word} is no function" for word in words - FUNCTIONS)]


def test_rules_and_panels_name_figures_that_a_server_exports_with_labels_that_they_have() -> None:
    assert len(expressions()) > 30
    assert [problem for expression in expressions() for problem in problems_of(expression)] == []
    assert problems_of("max(turnstile_tables_stuk) > 0") and problems_of('rate(turnstile_requests_total{code="5"}[5m])')
    assert problems_of("sum by (target) (turnstile_tables)") and problems_of("averages(turnstile_tables)")
    for expression in expressions():
        assert all(expression.count(one) == expression.count(other) for one, other in ("()", "[]", "{}"))


def test_every_figure_is_in_the_dashboard() -> None:
    shown = " ".join(expressions())
    figures = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    assert [name for name in sorted(figures) if name not in shown] == []


def test_every_alert_says_what_happened_and_what_to_do_and_how_urgent_it_is() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) >= 10
    for rule in alerts():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"] and rule["annotations"]["remedy"].endswith(".")
        assert re.fullmatch(r"\d+[smh]", rule["for"])


def test_remedies_and_files_name_commands_that_there_are() -> None:
    commands = get_command(program()).commands  # type: ignore[attr-defined]
    texts = [
        FOLDER / name for name in ("alerts.yaml", "compose.yaml", "turnstile.service", "helm/templates/worker.yaml")
    ]
    named = {
        word for text in texts for word in re.findall(r"turnstile (serve|work|[a-z]+(?= [A-Z(]))", text.read_text())
    }
    assert named and named <= commands.keys(), named - commands.keys()
    options = {option for one in ("serve", "work") for parameter in commands[one].params for option in parameter.opts}
    for text in (*texts, FOLDER / "helm/templates/server.yaml"):
        lines = [
            line
            for line in text.read_text().splitlines()
            if re.search(r"serve|args:|command:", line) and "#" not in line
        ]
        assert set(re.findall(r"--[a-z-]+", " ".join(lines))) <= options


def test_panels_lie_beside_each_other() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        own = set(
            itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"]))
        )
        assert place["x"] + place["w"] <= 24 and not own & cells, panel["title"]
        cells |= own
        assert panel["title"] and panel["targets"]


def test_the_compose_file_mounts_files_that_there_are_and_names_what_it_uses() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert set(service) <= {
            "build", "image", "entrypoint", "environment", "ports", "volumes", "secrets", "stop_grace_period",
            "restart", "profiles"
        }  # fmt: skip
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (FOLDER / source).is_file() if source.startswith(".") else source in compose["volumes"]
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), "a port is not opened to everybody"
    build = compose["services"]["turnstile"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    (job,) = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]
    assert job["job_name"] == "turnstile" and 'job="turnstile"' in alerts()[0]["expr"]


def test_the_unit_stops_a_server_as_it_wants_to_be_stopped() -> None:
    lines = (FOLDER / "turnstile.service").read_text().splitlines()
    sections = [line for line in lines if line.startswith("[")]
    assert sections == ["[Unit]", "[Service]", "[Install]"]
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith(("#", "[")))
    assert (settings["KillSignal"], settings["KillMode"]) == ("SIGTERM", "mixed")
    assert int(settings["TimeoutStopSec"]) >= 30 and settings["ExecStart"].split()[1:3] == ["serve", "--home"]
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        done = subprocess.run(
            [analyze, "verify", FOLDER / "turnstile.service"], capture_output=True, text=True, check=False
        )
        assert not [line for line in done.stderr.splitlines() if "Unknown" in line or "Failed to parse" in line]


# -- the chart --------------------------------------------------------------------------------------------------------


def digest() -> str:
    """Returns the hash of the chart's sources."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def rendered(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text()) if one]


def test_what_was_rendered_is_of_this_chart() -> None:
    assert (RENDERED / "chart.sha256").read_text().strip() == digest(), (
        "render it anew: for each case `helm template lake infra/server/helm --namespace data --set ...` into "
        "tests/data/helm"
    )


@pytest.mark.parametrize("name", CASES)
def test_the_objects_of_the_chart_fit_each_other(name: str) -> None:
    objects = {(one["kind"], one["metadata"]["name"]): one for one in rendered(name)}
    kind = "StatefulSet" if name == "sqlite" else "Deployment"
    server = objects[kind, "lake"]["spec"]
    pods = [(server, 3 if name == "dynamodb" else 1)]
    if name == "dynamodb":
        pods.append((objects["Deployment", "lake-worker"]["spec"], 2))
        assert objects["PodDisruptionBudget", "lake"]["spec"]["selector"] == server["selector"]
    for spec, replicas in pods:
        assert spec["replicas"] == replicas
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        assert ("ServiceAccount", spec["template"]["spec"]["serviceAccountName"]) in objects
        assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 30
    (container,) = server["template"]["spec"]["containers"]
    service = objects["Service", "lake"]["spec"]
    assert service["selector"].items() <= server["template"]["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] in [port["name"] for port in container["ports"]]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    variables = {one["name"]: one for one in container["env"]}
    assert variables["TURNSTILE_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "turnstile", "key": "token"}
    if name == "sqlite":
        assert [claim["metadata"]["name"] for claim in server["volumeClaimTemplates"]] == ["data"]
        assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}] and "args" not in container
    else:
        assert container["args"] == ["--store", "dynamodb:refs,objs", "--fleet", "--roles", "none"]
        assert variables["TURNSTILE_LAKE"]["value"] == "s3://bucket/lake" and "volumeClaimTemplates" not in server

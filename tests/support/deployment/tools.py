"""Programs that judge the files for operators: Prometheus's promtool, Helm, the schema of compose
files, and the schemas of Kubernetes. Each comes by the client of its registry into the cache
folder, once; nothing is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.support.downloads import MAKE_SECONDS, Missing, alone, cache, environment
from tests.support.repository import ROOT

FOLDER: Final = ROOT / "infra/server"
CHART: Final = FOLDER / "helm"
RENDERED: Final = ROOT / "tests/data/helm"
CASES: Final[dict[str, list[str]]] = {
    "sqlite": [],
    "dynamodb": [
        "store=dynamodb:refs,objs",
        "replicas=3",
        "workers=2",
        "lake=s3://bucket/lake",
        "env.AWS_REGION=eu-central-1",
    ],
}
"""The values of the chart for each file in ``RENDERED``."""

HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.19.5"
COMPOSE: Final = "github.com/compose-spec/compose-go/v2@v2.16.2"
KUBERNETES: Final = "kubernetes-validate==1.37.0"


def promtool() -> Path:
    """Out of Debian's package ``prometheus``."""
    if found := shutil.which("promtool"):
        return Path(found)
    folder = cache("promtool")
    program = folder / "usr/bin/promtool"
    with alone(folder):
        if not program.exists():
            if not list(folder.glob("prometheus_*.deb")):
                _ran(["apt-get", "update"], folder)
                _ran(["apt-get", "download", "prometheus"], folder)
            (package,) = folder.glob("prometheus_*.deb")
            _ran(["dpkg-deb", "-x", package, folder], folder)
    return program


def helm() -> Path:
    """Compiled by Go: five minutes the first time."""
    if found := shutil.which("helm"):
        return Path(found)
    folder = cache("helm")
    program = folder / "helm"
    with alone(folder):
        if not program.exists():
            _ran(["go", "install", HELM], folder, GOBIN=str(folder))
    return program


def compose_schema() -> dict[str, Any]:
    """The specification's own schema, as Docker's loader carries it."""
    folder = cache("compose")
    with alone(folder):
        found = json.loads(_ran(["go", "mod", "download", "-json", COMPOSE], folder))
    return dict(json.loads((Path(found["Dir"]) / "schema/compose-spec.json").read_text()))


def kubernetes_validate() -> Path:
    """The program ``kubernetes-validate``, which carries the schemas of several versions."""
    return environment("kubernetes-validate", KUBERNETES).with_name("kubernetes-validate")


def _ran(command: list[str | Path], folder: Path, **variables: str) -> str:
    """Runs a command in a folder; returns its output. Raises Missing."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **variables},
            check=False,
            capture_output=True,
            text=True,
            timeout=MAKE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from error
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))}: {done.stderr[-300:]}")
    return done.stdout

"""One deployment for this folder, and a Spark session for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.deployment import root
from tests.support.deployment.stack import Deployment, deployment
from tests.support.downloads import Missing


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """template.yaml, deployed by SAM."""
    began = time.monotonic()
    try:
        made = root.make()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: the deployment by SAM; {missing}")
    root_s = time.monotonic() - began
    with deployment(made, tmp_path_factory.mktemp("deployment")) as running:
        running.emulator.seconds["root"] = root_s
        yield running

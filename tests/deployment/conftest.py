"""One deployment for this folder: template.yaml by SAM on an emulator whose functions run by Lambda's own Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.support.deployment import emulator, root
from tests.support.deployment.emulator import Emulator
from tests.support.downloads import Missing
from turnstile_local.deployment import keep_secret
from turnstile_local.routes import deployed, make_routes
from turnstile_local.settings import SECRET_ARN, STACK_NAME

TOKEN = "a-token-for-tests"
PARAMETERS = {
    "LakeRoot": "s3://lake/warehouse",
    "Secret": SECRET_ARN,
    "IssueTokens": "true",
    "Console": "true",
    "DeletionProtection": "false",
}


@dataclass
class Deployment:
    """``url`` is that of the HTTP API, ``parameters`` are the stack's."""

    emulator: Emulator
    url: str
    parameters: dict[str, str]

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The stack, with a namespace."""
    try:
        made = root.make()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: the deployment by SAM; {missing}")
    with emulator.started(made, tmp_path_factory.mktemp("deployment")) as running:
        running.build()
        running.aws("s3").create_bucket(Bucket="lake")
        keys = {"token": TOKEN, "token_keys": "local:a-key-for-tests-that-is-long-enough-by-far"}
        keep_secret(running.address, emulator.KEYS, keys)
        running.deploy(PARAMETERS)
        url = make_routes(running.address, deployed(running.address, STACK_NAME, running.built / "template.yaml"))
        stack = Deployment(running, url, dict(PARAMETERS))
        with stack.client() as api:
            api.post("/v1/catalogs", json={"name": "main"}).raise_for_status()
            api.post("/v1/catalogs/main/namespaces", json={"name": "default"}).raise_for_status()
        yield stack

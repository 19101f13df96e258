"""Unity Catalog's own Java client as a registered client (``auth.type=oauth``): it asks for its
token, renews it, uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pathlib import Path

    from py4j.java_gateway import JavaGateway

    from turnstile_server import Server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from turnstile_server import Server

    home: Path = tmp_path_factory.mktemp("guarded")
    with Server.start(home, 0, "s3cret", environment={"TURNSTILE_TOKEN_SECONDS": "60"}) as running:
        yield running


def provider(jvm: JavaGateway, url: str, client: dict[str, Any]) -> Any:
    settings = jvm.jvm.java.util.HashMap()
    for name, value in {
        "type": "oauth",
        "oauth.uri": f"{url}/oauth/token",
        "oauth.clientId": client["client_id"],
        "oauth.clientSecret": client["client_secret"],
    }.items():
        settings.put(name, value)
    return jvm.jvm.io.unitycatalog.client.auth.TokenProvider.create(settings)


def register(server: Server, **more: Any) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {server.token}"}
    answer = httpx.post(
        f"{server.url}/v1/clients", json={"name": "spark", **more}, headers=headers, trust_env=False, timeout=60
    )
    return dict(answer.json())


def test_the_java_client_gets_a_token_keeps_it_and_is_let_in(jvm: JavaGateway, guarded: Server) -> None:
    tokens = provider(jvm, guarded.url, register(guarded, admin=True))
    first = tokens.accessToken()
    assert first.count(".") == 2
    assert tokens.accessToken() == first, "it is asked for again half a minute before it ends"
    versions = jvm.jvm.java.util.HashMap()
    versions.put("Delta", "4.4.0")
    client = jvm.jvm.io.delta.storage.commit.uccommitcoordinator.UCTokenBasedRestClient(guarded.url, tokens, versions)
    assert client.getMetastoreId()


def test_i12_the_java_client_with_a_wrong_secret_gets_the_reason(jvm: JavaGateway, guarded: Server) -> None:
    tokens = provider(jvm, guarded.url, {**register(guarded), "client_secret": "wrong"})
    with pytest.raises(Py4JJavaError, match="invalid_client"):
        tokens.accessToken()

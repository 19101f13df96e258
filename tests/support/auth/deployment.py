"""A deployment with an issuer: the four HTTP-side functions on one world, and a key set served over
real HTTP."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

from tests.support.auth.issuer import AUDIENCE, claims, jwk, token
from tests.support.fakes.world import fake_world
from tests.support.functions import Answer, Function, Http, event

OPERATOR = "s3cret"
KEYS = "k1:" + "A" * 43
FORM = "application/x-www-form-urlencoded"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type:"


@dataclass
class Issuer:
    """An issuer on a port of this machine; ``down`` makes it answer 503, ``asked`` lists the paths
    it was asked for."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def token(self, *, key: str = "rsa", alg: str = "RS256", **said: Any) -> str:
        """A token that it signed."""
        return token(claims(iss=self.url, **said), key=key, alg=alg)


@contextmanager
def issuer() -> Iterator[Issuer]:
    """An issuer that is asked over HTTP."""
    made = Issuer(keys=[jwk("rsa")])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            documents = {
                "/.well-known/openid-configuration": {"issuer": made.url, "jwks_uri": made.url + "/keys"},
                "/keys": {"keys": made.keys},
            }
            body = json.dumps(documents.get(self.path)).encode()
            self.send_response(503 if made.down else 200 if self.path in documents else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


class Deployment:
    """The functions as a deployment with these settings has them, on fakes.

    Args:
        issuer_url: trusted issuer, if there is one.
        settings: further variables, or other values.
    """

    def __init__(self, issuer_url: str = "", **settings: str) -> None:
        self.environment = {"TURNSTILE_TOKEN": OPERATOR, "TURNSTILE_TOKEN_KEYS": KEYS}
        if issuer_url:
            self.environment |= {"TURNSTILE_OIDC_ISSUER": issuer_url, "TURNSTILE_OIDC_AUDIENCE": AUDIENCE}
        self.environment |= settings
        self.world = fake_world()
        self.apps = {name: Function(name, **self.environment) for name in ("commit", "catalog", "tokens")}
        for app in self.apps.values():
            app.use_world(self.world)
        self.authorizer = Function("authorizer", **self.environment)
        self.kept: dict[str, dict[str, Any]] = {}
        self.verified = 0

    def http(self, function: str, bearer: str = "") -> Http:
        """A function, asked without the gateway's authorizer."""
        return Http(self.apps[function].app, bearer)

    def through_gateway(self, function: str, method: str, path: str, bearer: str, **options: Any) -> Answer:
        """A request as the gateway passes it on: verified by the authorizer, whose answer it caches
        by the header."""
        header = f"Bearer {bearer}"
        if header not in self.kept:
            self.verified += 1
            told = self.authorizer.authorize({"identitySource": [header]}, None)
            assert told["isAuthorized"] is True
            self.kept[header] = json.loads(json.dumps(told["context"]))
        sent = event(method, path, headers={"Authorization": header}, **options)
        sent["requestContext"]["authorizer"] = {"lambda": self.kept[header]}
        return self.http(function).send(sent)

    def client(self, **more: Any) -> dict[str, Any]:
        """A registered client, with its secret."""
        made = self.http("tokens", OPERATOR).post("/v1/clients", {"name": "etl", **more})
        assert made.status == 201, made.text
        return dict(made.json)

    def ask_token(self, form: dict[str, str] | str, path: str = "/oauth/token", **headers: str) -> Answer:
        """A request of the token endpoint."""
        body = form if isinstance(form, str) else urlencode(form)
        sent = {"Content-Type": FORM, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.http("tokens").call("POST", path, body=body, headers=sent)

    def access_token(self, client: dict[str, Any]) -> str:
        """A client's access token, got as Spark's connector gets it."""
        form = {"grant_type": "client_credentials", "scope": "all-apis"}
        answer = self.ask_token(form, Authorization=basic(client["client_id"], client["client_secret"]))
        assert answer.status == 200, answer.text
        return str(answer.json["access_token"])


def basic(client_id: str, secret: str) -> str:
    """A header of ``client_secret_basic``."""
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()

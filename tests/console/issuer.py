"""An OIDC issuer on loopback: the code flow with PKCE that oidc-client-ts speaks, for one user who
is always logged in."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.auth.issuer import AUDIENCE, jwk, token

CLIENT = "turnstile-console"
USER = "ada"


class _Handler(BaseHTTPRequestHandler):
    codes: ClassVar[dict[str, dict[str, str]]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def do_OPTIONS(self) -> None:
        self._send(204, None)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/.well-known/openid-configuration":
            self._send(200, _discovery(self.url))
        elif asked.path == "/keys":
            self._send(200, {"keys": [jwk("rsa")]})
        elif asked.path == "/authorize":
            self._authorize({name: values[0] for name, values in parse_qs(asked.query).items()})
        else:
            self._send(404, {"error": "not found"})

    def _authorize(self, query: dict[str, str]) -> None:
        assert query["client_id"] == CLIENT and query["response_type"] == "code", query
        assert query["code_challenge_method"] == "S256", query
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        self.send_response(302)
        self.send_header("Location", f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")
        self.end_headers()

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = self.codes.pop(form["code"][0], None)
        digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or challenge != asked["code_challenge"]:
            self._send(400, {"error": "invalid_grant"})
            return
        now = int(time.time())
        claims = {"iss": self.url, "sub": USER, "iat": now, "exp": now + 300}
        access = token({**claims, "aud": AUDIENCE, "groups": []})
        identity = token({**claims, "aud": CLIENT})
        self._send(200, {"access_token": access, "id_token": identity, "token_type": "Bearer", "expires_in": 300})

    def _send(self, status: int, document: Any) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Headers", "*")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _discovery(url: str) -> dict[str, Any]:
    return {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "jwks_uri": f"{url}/keys",
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


@contextmanager
def running() -> Iterator[str]:
    """The issuer's URL while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

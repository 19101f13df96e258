"""``turnstile clients``: its requests, its output, and its error for a gateway's bare 401."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import run, service

ID = "client-6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1"
CLIENT: dict[str, Any] = {
    "client_id": ID, "name": "etl [x]", "roles": ["a", "b"], "admin": False, "creator": "operator",
    "created": 1_770_000_000_000, "changed": 1_770_000_000_000,
}  # fmt: skip
SECRET = {**CLIENT, "client_secret": "-s3cret_"}


def test_a_client_is_created_and_its_secret_shown() -> None:
    with service({"POST /v1/clients": (201, SECRET)}) as canned:
        arguments = ("clients", "create", "etl [x]", "--role", "a", "--role", "b", "--url", canned.url)
        shown = run(*arguments)
        assert (shown.exit_code, canned.seen[0][2]) == (0, {"name": "etl [x]", "roles": ["a", "b"], "admin": False})
        for text in (ID, "-s3cret_", f"{canned.url}/oauth/token", "not shown again"):
            assert text in shown.stdout
        assert json.loads(run(*arguments, "--admin", "--output", "json").stdout) == SECRET
        assert canned.seen[1][2]["admin"] is True


def test_clients_are_listed() -> None:
    with service({"GET /v1/clients": (200, {"clients": [CLIENT]})}) as canned:
        shown = run("clients", "list", "--url", canned.url)
        assert shown.exit_code == 0
        for text in (ID, "etl [x]", "a, b"):
            assert text in shown.stdout
        assert json.loads(run("clients", "list", "--url", canned.url, "-o", "json").stdout) == {"clients": [CLIENT]}
    damaged = [{"key": "main/client/x", "message": "row 'main/client/x' cannot be read: no row"}]
    with service({"GET /v1/clients": (200, {"clients": [], "unreadable": damaged})}) as canned:
        shown = run("clients", "list", "--url", canned.url)
        assert "no clients" in shown.stdout and "unreadable row 'main/client/x'" in shown.stdout


def test_a_secret_is_rotated_at_once_unless_it_is_kept() -> None:
    with service({f"POST /v1/clients/{ID}/rotate": (200, SECRET)}) as canned:
        assert "-s3cret_" in run("clients", "rotate", ID, "--url", canned.url).stdout
        run("clients", "rotate", ID, "--keep-seconds", "60", "--url", canned.url)
        assert [body for _, _, body, _ in canned.seen] == [{"keep_seconds": 0}, {"keep_seconds": 60}]


def test_a_client_is_deleted_and_an_unknown_one_not_found() -> None:
    with service({f"DELETE /v1/clients/{ID}": (204, b"")}) as canned:
        assert "is deleted" in run("clients", "delete", ID, "--url", canned.url).stdout
        shown = run("clients", "delete", ID, "--url", canned.url, "-o", "json")
        assert json.loads(shown.stdout) == {"client_id": ID, "deleted": True}
        assert run("clients", "delete", "a/b", "--url", canned.url).exit_code == 3
        assert canned.seen[-1][1] == "/v1/clients/a%2Fb"


def test_a_gateways_own_401_says_what_to_do() -> None:
    with service({"GET /v1/clients": (401, {"message": "Unauthorized"})}) as canned:
        ended = run("clients", "list", "--url", canned.url)
    assert ended.exit_code == 4
    assert "--token" in ended.stderr

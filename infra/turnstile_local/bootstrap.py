"""What a fresh stack holds: catalog ``main`` with namespace ``default``."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx

from turnstile_local.errors import StackError

CATALOG: Final = "main"
NAMESPACE: Final = "default"
_SECONDS: Final = 40.0


def ensure(url: str, token: str) -> None:
    """Create the catalog and the namespace unless they exist, and warm up both API functions on the way.

    Raises StackError when the API refuses for another reason than that they are there already.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    client = httpx.Client(base_url=url, headers=headers, timeout=_SECONDS, trust_env=False)
    with client as api, ThreadPoolExecutor(1) as pool:
        about = pool.submit(_ask, api, "GET", "/v1")
        _create(api, "/v1/catalogs", CATALOG)
        _create(api, f"/v1/catalogs/{CATALOG}/namespaces", NAMESPACE)
        about.result()


def _create(api: httpx.Client, path: str, name: str) -> None:
    _ask(api, "POST", path, {"name": name})


def _ask(api: httpx.Client, method: str, path: str, body: dict[str, str] | None = None) -> None:
    """Ask until it is done, exists already, or is refused."""
    deadline = time.monotonic() + _SECONDS
    while True:
        answer = api.request(method, path, json=body)
        if answer.is_success or _exists(answer):
            return
        # On a busy machine a cold start can outlast the functions' own patience with the tables.
        if (answer.status_code != 429 and answer.status_code < 500) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    raise StackError(
        f"{method} {path} of the new stack answered {answer.status_code}: {answer.text[:500]}",
        remedy="look at log/functions.log in the stack's home",
        kind="BootstrapFailed",
    )


def _exists(answer: httpx.Response) -> bool:
    try:
        return answer.status_code == 409 and answer.json()["error"]["type"] == "AlreadyExists"
    except (ValueError, KeyError, TypeError):
        return False

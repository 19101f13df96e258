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
        about = pool.submit(api.get, "/v1")
        _create(api, "/v1/catalogs", CATALOG)
        _create(api, f"/v1/catalogs/{CATALOG}/namespaces", NAMESPACE)
        if about.result().status_code != 200:
            raise _failed("GET /v1", about.result())


def _create(api: httpx.Client, path: str, name: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        answer = api.post(path, json={"name": name})
        if answer.status_code in (200, 201) or _exists(answer):
            return
        if answer.status_code not in (429, 502, 503) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    raise _failed(f"POST {path}", answer)


def _failed(request: str, answer: httpx.Response) -> StackError:
    return StackError(
        f"{request} of the new stack answered {answer.status_code}: {answer.text[:500]}",
        remedy="look at the stack's log",
        kind="BootstrapFailed",
    )


def _exists(answer: httpx.Response) -> bool:
    try:
        return answer.status_code == 409 and answer.json()["error"]["type"] == "AlreadyExists"
    except (ValueError, KeyError, TypeError):
        return False

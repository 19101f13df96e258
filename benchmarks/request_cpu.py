"""CPU time of one warm request on Lambda and DynamoDB: ``python -m benchmarks.request_cpu``.

A server in a process of its own gives every request the same answer, over real HTTP connections
that stay open (no TLS), so that the CPU time of this process is the client's. Requests are the ones
that the adapter sends and the gateway's event of a small inline commit of Spark; the answers hold a
row with eight unpublished commits, 7 kB as JSON. All kinds take turns in batches; of these the
median is shown, and the least, which other work on the machine disturbs least. Calls of Python
functions are counted beside it: they are the same on every machine (bounds are asserted in
tests/functional/deploy/test_calls_of_a_request.py).

    HTTP alone     urllib3 sends the same bytes and reads the answer: what is left if nothing else took any time
    botocore       a client of botocore alone
    ours           the same client with adapters/dynamo/transport.py
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
import urllib3
from botocore.exceptions import ClientError
from rich.console import Console
from rich.table import Table

from tests.support.python_calls import python_calls
from tests.support.store.canned import WarmCommit, answer, refusal, serving
from tests.support.store.clients import plain_dynamodb
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages, dynamodb
from turnstile.api import apps
from turnstile.api.services import Services
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

Work = Callable[[], object]
_WARM = 200


def _app(client: Any, space: Space, commit: WarmCommit) -> Callable[[Any, Any], dict[str, Any]]:
    clock = SystemClock()
    refs = DynamoRefs(client, "refs", realm=space.realm)
    objs = DynamoObjs(client, "objs", clock=clock)
    services = Services(World(refs, objs, FileStorages(None), clock, RandomIds(), space))
    app = apps.commit(services)

    def answer_warm(event: Any, context: Any) -> dict[str, Any]:
        commit.warm(services.ratifier)
        return app(event, context)

    return answer_warm


def _sent(client: Any, app: Callable[[Any, Any], Any], event: Any) -> tuple[dict[str, Any], bytes]:
    """The UpdateItem of a commit: its parameters, and its body on the wire."""
    seen: list[Any] = []
    for name in ("provide-client-params", "before-send"):
        client.meta.events.register(f"{name}.dynamodb.UpdateItem", lambda **told: seen.append(told))
    app(event, None)
    return seen[-2]["params"], seen[-1]["request"].body


def _refused(client: Any, request: dict[str, Any]) -> Work:
    def call() -> None:
        try:
            client.update_item(**request)
        except ClientError:
            return
        raise AssertionError("it was to be refused")

    return call


def _commit(client: Any, space: Space, commit: WarmCommit, event: Any, status: int) -> Work:
    app = _app(client, space, commit)

    def call() -> None:
        assert app(event, None)["statusCode"] == status

    return call


def cases(commit: WarmCommit, space: Space, accepting: str, refusing: str) -> dict[tuple[str, str], Work]:
    """Every kind of request, by what is asked and by whom."""
    watched = plain_dynamodb(accepting)
    request, body = _sent(watched, _app(watched, space, commit), commit.event)
    key = {"TableName": "refs", "Key": {"key": {"S": commit.key}}, "ConsistentRead": True}
    pool = urllib3.HTTPConnectionPool("127.0.0.1", int(accepting.rpartition(":")[2]))
    headers = {"X-Amz-Target": "DynamoDB_20120810.UpdateItem"}
    made: dict[tuple[str, str], Work] = {
        ("UpdateItem", "HTTP alone"): lambda: pool.urlopen("POST", "/", body=body, headers=headers).data
    }
    for who, open_client in (("botocore", plain_dynamodb), ("ours", dynamodb)):
        client = open_client(accepting)
        refused = open_client(refusing)
        made["UpdateItem", who] = lambda client=client: client.update_item(**request)
        made["UpdateItem, refused", who] = _refused(refused, request)
        made["GetItem", who] = lambda client=client: client.get_item(**key)
        made["commit", who] = _commit(client, space, commit, commit.event, 200)
        made["commit, refused", who] = _commit(refused, space, commit, commit.rival, 409)
    return made


def measure(works: dict[tuple[str, str], Work], calls: int, batch: int) -> dict[tuple[str, str], list[float]]:
    """CPU milliseconds of one call, in each of the batches, which take turns."""
    batches: dict[tuple[str, str], list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(_WARM):
            work()
    for _ in range(calls // batch):
        for name, work in works.items():
            began = time.process_time()
            for _ in range(batch):
                work()
            batches[name].append((time.process_time() - began) * 1000 / batch)
    return batches


def main(
    calls: Annotated[int, typer.Option(help="Calls of each kind.")] = 4_000,
    batch: Annotated[int, typer.Option(help="Calls in a row of one kind.")] = 50,
    output: Annotated[str, typer.Option(help="table or json")] = "table",
) -> None:
    """Measures, and prints a table, or JSON."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        os.environ.setdefault(f"AWS_{name}", value)
    os.environ["TURNSTILE_AUTHENTICATION"] = "none"
    space = Space("default")
    commit = WarmCommit(space)
    accepts = answer({"Attributes": commit.item})
    refuses = refusal(commit.item)
    with (
        serving({"UpdateItem": accepts, **commit.reads}, own_process=True) as accepting,
        serving({"UpdateItem": refuses, **commit.reads}, own_process=True) as refusing,
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),  # log lines are written, and not read
    ):
        works = cases(commit, space, accepting, refusing)
        batches = measure(works, calls, batch)
        counted = {name: python_calls(work) for name, work in works.items()}
    load = os.getloadavg()[0]
    rows = [
        {
            "request": asked,
            "by": by,
            "median_cpu_ms": statistics.median(batches[asked, by]),
            "least_cpu_ms": min(batches[asked, by]),
            "python_calls": counted[asked, by],
        }
        for asked, by in sorted(works)
    ]
    if output == "json":
        json.dump({"load": load, "requests": rows}, sys.stdout, indent=2)
        return
    table = Table(title=f"CPU of one request, {calls} of each kind, load {load:.1f}")
    for column in ("request", "by", "median ms", "least ms", "Python calls"):
        table.add_column(column, justify="left" if column in ("request", "by") else "right")
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)

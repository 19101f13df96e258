"""Where the emulator and its web server are changed, and why. Each patch is one function, applied
before they start.

They are changed in memory, in the gateway's process only. A test starts the stack and checks the
effect of each, so that a new version that no longer needs or no longer fits a patch is noticed.
"""

from __future__ import annotations

import hmac
import logging
import os
import threading
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Any, Final

from turnstile_local.settings import ACCESS_KEY, CONCURRENCY, SECRET_KEY, STACK_NAME

if TYPE_CHECKING:
    from turnstile_local.home import Layout

FUNCTION_LOG_BYTES: Final = 8_000_000

KEPT_SERVICES: Final = frozenset({
    "apigateway", "cloudformation", "cloudwatch_logs", "dynamodb", "eventbridge", "iam", "lambda", "s3", "sqs",
})  # fmt: skip
"""Services whose state outlives a restart."""


def apply(layout: Layout, *, deploys: bool) -> None:
    """Apply every patch. Call it before the emulator's app is served; ``deploys`` as in the
    launcher."""
    no_wait_for_log_lines()
    keep_function_log(layout)
    queue_for_a_worker()
    ignore_h2c_upgrade()
    sign_by_random_keys()
    restart_stream_at_its_start()
    keep_only_what_is_used(deploys=deploys)


def no_wait_for_log_lines() -> None:
    """Do not wait for log lines after an invocation.

    The emulator waits 50 ms for a first line on stderr after every call of a function that logs
    nothing, ten times the time of the call itself. A line that comes later is reported with the
    next call.
    """
    from ministack.core import lambda_runtime

    def drain(worker: Any, **_: float) -> str:
        return str(worker._drain_stderr())  # noqa: SLF001

    lambda_runtime.Worker._drain_stderr_bounded = drain  # noqa: SLF001


def keep_function_log(layout: Layout) -> None:
    """Write the functions' log to a file as it comes, the newest few megabytes of it.

    The emulator keeps it in memory, for its CloudWatch Logs.
    """
    from ministack.core import lambda_runtime

    keeper = RotatingFileHandler(layout.functions_log, maxBytes=FUNCTION_LOG_BYTES, backupCount=1, delay=True)
    keeper.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("turnstile.functions")
    log.addHandler(keeper)
    log.setLevel(logging.INFO)
    log.propagate = False

    def read_stderr(worker: Any) -> None:
        name = worker.func_name.removeprefix(f"{STACK_NAME}-").split("-")[0]
        try:
            for line in worker._proc.stderr:  # noqa: SLF001
                worker._stderr_queue.put(line.rstrip("\n"))  # noqa: SLF001
                log.info("%s %s", name, line.rstrip("\n"))
        except ValueError:  # closed while reading: the process is gone
            return

    lambda_runtime.Worker._read_stderr = read_stderr  # noqa: SLF001


def queue_for_a_worker() -> None:
    """Let requests wait for one of a few processes of a function instead of starting one for each.

    Every process costs half a second of processor time to start; thirty writers at once would spend
    their time on nothing else. The branches function, which others call, calls none itself, so
    waiting cannot lock up.
    """
    from ministack.services import lambda_svc

    seats: dict[str, threading.BoundedSemaphore] = {}
    guard = threading.Lock()
    execute = lambda_svc._execute_function_warm  # noqa: SLF001

    def execute_seated(func: dict[str, Any], *args: Any) -> Any:
        name = str((func.get("config") or func).get("FunctionName"))
        with guard:
            seat = seats.setdefault(name, threading.BoundedSemaphore(CONCURRENCY))
        with seat:
            return execute(func, *args)

    lambda_svc._execute_function_warm = execute_seated  # noqa: SLF001


def ignore_h2c_upgrade() -> None:
    """Answer ``Upgrade: h2c`` in HTTP/1.1, as a server may.

    Java's HTTP client offers the upgrade with its first request. The web server would accept it and
    then speak HTTP/2 with a client that may have sent a body along.
    """
    from hypercorn.protocol import h11

    check = h11.H11Protocol._check_protocol  # noqa: SLF001

    async def without_upgrade(protocol: Any, event: Any) -> None:
        offered = any(name.lower() == b"upgrade" and value.lower() == b"h2c" for name, value in event.headers)
        if not offered:
            await check(protocol, event)

    h11.H11Protocol._check_protocol = without_upgrade  # type: ignore[assignment]  # noqa: SLF001


def sign_by_random_keys() -> None:
    """Give functions random keys: the home's, or under roles the keys of a session that follow from
    the home's secret. Keys of the emulator are the account's number, or follow from the function's
    name.
    """
    from ministack import app
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc, sts

    access_key = os.environ[ACCESS_KEY]
    secret_key = os.environ[SECRET_KEY]

    def credentials(config: dict[str, Any]) -> dict[str, str]:
        if not app.AUTH:
            return {ACCESS_KEY: access_key, SECRET_KEY: secret_key, "AWS_SESSION_TOKEN": ""}
        function = str(config["FunctionArn"])
        role = str(config.get("Role", ""))
        id, secret, token = (
            hmac.new(secret_key.encode(), f"{part} {function} {role}".encode(), "sha256").hexdigest()
            for part in ("id", "secret", "token")
        )
        account = function.split(":")[4]
        name = role.rsplit("/", 1)[-1]
        session = str(config.get("FunctionName", STACK_NAME))[:64]
        sts.register_session(f"ASIA{id[:32].upper()}", {
            "Arn": f"arn:aws:sts::{account}:assumed-role/{name}/{session}", "UserId": f"{name}:{session}",
            "SecretAccessKey": secret, "SessionToken": token,
        })  # fmt: skip
        return {ACCESS_KEY: f"ASIA{id[:32].upper()}", SECRET_KEY: secret, "AWS_SESSION_TOKEN": token}

    lambda_runtime.execution_credentials = credentials
    lambda_svc.execution_credentials = credentials


def is_session(access_key: str) -> bool:
    """Whether this is the id of a key that the emulated STS issued and that has not ended. Not a
    patch: asked by the guard."""
    from ministack.services import sts

    session = sts._sessions.get(access_key)  # noqa: SLF001
    return session is not None and not sts._session_expired(session)  # noqa: SLF001


def restart_stream_at_its_start() -> None:
    """Forget how far a stream was read when the emulator stopped.

    It keeps that position over a restart, but not the records, which are numbered from nought
    again: the consumer would be deaf until as many records have come as before.
    """
    from ministack.services import lambda_svc

    load = lambda_svc.load_persisted_state

    def load_without_positions(data: dict[str, Any]) -> None:
        load({name: value for name, value in data.items() if name != "dynamodb_stream_positions"})

    lambda_svc.load_persisted_state = load_without_positions


def keep_only_what_is_used(*, deploys: bool) -> None:
    """Save and load the state of the services that template.yaml uses.

    The emulator writes a file for each of the fifty services that deploying a template happens to
    import, and imports them all again at the next start, which takes longer than everything else.
    CloudFormation itself is left alone, its file as it is, unless a deployment follows: it imports
    all the others.
    """
    from ministack import app

    kept = KEPT_SERVICES if deploys else KEPT_SERVICES - {"cloudformation"}
    app._state_map = {name: module for name, module in app._state_map.items() if name in kept}  # noqa: SLF001

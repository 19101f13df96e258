"""The one process of a running stack: ``python -m turnstile_local.gateway``, started by
:mod:`turnstile_local.launch`.

It serves one URL: the API's own paths go to the deployed HTTP API, the rest to the emulated AWS,
which has no port of its own. Every request passes :mod:`turnstile_local.guards` first. It takes
from its parent an already listening socket, so that the port is known to be free before anything
starts, and the stack's lock, which it holds until it dies. SIGTERM stops it in order: requests in
flight end, then the emulator writes its state.

The emulator writes its state only at an orderly stop. :class:`Checkpoint` writes the tables soon
after they change, so that a killed stack loses only the writes since the last pause of two seconds,
or of the last half minute under steady load. Those writes were acknowledged, and may be in
``_delta_log``: after a kill (``Layout.running`` is left over) the API stays closed until every
table has been marked ``recovering``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import resource
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from turnstile_local.guards import App, Guard, Receive, Scope, Send, is_api, without_cors
from turnstile_local.home import Layout
from turnstile_local.settings import ACCESS_KEY, API_ID, HEALTH, OPEN, SAVE

_PREFIX: Final = f"/_aws/execute-api/{API_ID}/$default"

PAUSE_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 30.0
SHARE: Final = 50
"""Under load, a checkpoint that takes a second is followed by fifty without one."""

FILE_CLOCK_SECONDS: Final = 0.05
"""How far a file's time may be behind the clock: file systems keep the time of their last tick."""

_WRITES: Final = tuple(
    b"DynamoDB_20120810." + action
    for action in (b"PutItem", b"UpdateItem", b"DeleteItem", b"BatchWriteItem", b"TransactWriteItems")
)
_log = logging.getLogger("turnstile.checkpoint")


def main() -> None:
    """Serves until SIGTERM or SIGINT. Arguments are for the launcher only."""
    parser = argparse.ArgumentParser(description="The embedded development stack; start it with 'turnstile up --aws'.")
    parser.add_argument("--home", required=True)
    parser.add_argument("--socket", required=True, type=int, help="descriptor of the listening socket")
    parser.add_argument("--lock", required=True, type=int, help="descriptor that holds the stack's lock")
    parser.add_argument("--deploys", action="store_true", help="a template will be deployed at once")
    options = parser.parse_args()
    # Functions inherit what is inheritable, and the lock must not outlive this process.
    os.set_inheritable(options.lock, False)
    os.set_inheritable(options.socket, False)
    _empty(Path(os.environ["TMPDIR"]))
    _raise_open_files()
    if options.deploys:
        threading.Thread(target=_load_transform, daemon=True).start()
    layout = Layout.at(options.home)
    layout.deployment_digest.unlink(missing_ok=True)
    layout.note_start()
    checkpoint = Checkpoint(layout)
    asyncio.run(_serve(options, layout, checkpoint))
    checkpoint.note_deployment()
    layout.note_end(saved=checkpoint.is_saved())


async def _serve(options: argparse.Namespace, layout: Layout, checkpoint: Checkpoint) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    from turnstile_local import patches

    patches.apply(layout, deploys=options.deploys)
    config = Config()
    config.bind = [f"fd://{options.socket}"]
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = 1_000_000
    config.graceful_timeout = 5
    config.backlog = 1024
    config.loglevel = "WARNING"
    identity: dict[str, Any] = {
        "service": "turnstile-stack",
        "development": True,
        "pid": os.getpid(),
        "home": options.home,
        "started": int(time.time() * 1000),
    }
    guard = Guard(os.environ[ACCESS_KEY], patches.is_session)
    gateway = Gateway(app, guard, identity, checkpoint, is_open=not layout.recovery_marker.exists())
    await serve(gateway, config)  # type: ignore[arg-type]


class Gateway:
    """ASGI app around the emulator's. ``identity`` is the answer of the health check; while the API
    is not open, only signed requests get in."""

    def __init__(
        self, emulator: App, guard: Guard, identity: dict[str, Any], checkpoint: Checkpoint, *, is_open: bool = True
    ) -> None:
        self._emulator = emulator
        self._guard = guard
        self._identity = identity
        self._checkpoint = checkpoint
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            saving = asyncio.create_task(self._checkpoint.keep())
            await self._emulator(scope, receive, send)
            saving.cancel()
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "nothing here speaks WebSocket"})
            return
        send = without_cors(send)
        refusal = self._guard.refusal(scope)
        if refusal is not None:
            await _answer(send, 403, {"error": refusal._asdict()})
        elif scope["path"] in (HEALTH, SAVE, OPEN):
            await self._serve_own(scope, send)
        elif not is_api(scope):
            self._checkpoint.note(scope["headers"])
            await self._emulator(scope, receive, send)
        elif self._is_open:
            # The raw path goes along: it alone tells an encoded slash from a plain one.
            raw = scope.get("raw_path") or scope["path"].encode()
            api = {**scope, "path": _PREFIX + scope["path"], "raw_path": _PREFIX.encode() + raw}
            await self._emulator(api, receive, send)
        else:
            await _answer(send, 503, _CLOSED)

    async def _serve_own(self, scope: Scope, send: Send) -> None:
        """The gateway's own paths; ``POST`` changes something."""
        if scope["method"] == "POST" and scope["path"] == SAVE:
            self._checkpoint.save_all()
        if scope["method"] == "POST" and scope["path"] == OPEN:
            self._is_open = True
        await _answer(send, 200, self._identity)


_CLOSED: Final = {
    "error": {
        "type": "Unavailable",
        "message": "the stack was killed; it is checking which published commits its tables do not know",
        "remedy": "try again in a few seconds",
    }
}


async def _answer(send: Send, status: int, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Checkpoint:
    """Knows whether the tables changed since they were written, and when to write them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._changed_first = 0.0
        self._changed_last = 0.0
        self._not_before = 0.0
        self._written_before = 0.0

    def note(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Notes a request to the emulated AWS."""
        if any(name == b"x-amz-target" and value in _WRITES for name, value in headers):
            self._changed_last = time.monotonic()
            self._written_before = time.time()
            self._changed_first = self._changed_first or self._changed_last

    def due(self, now: float) -> bool:
        """Whether the tables should be written at ``now`` (monotonic seconds)."""
        if not self._changed_first:
            return False
        paused = now - self._changed_last >= PAUSE_SECONDS
        return paused or (now - self._changed_first >= LONGEST_SECONDS and now >= self._not_before)

    async def keep(self) -> None:
        """Writes whenever it is due; runs for as long as the server does."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS / 2)
            if self.due(time.monotonic()):
                await self.save_tables()

    async def save_tables(self) -> None:
        """Writes the tables. They are copied between two requests, so that the copy is of one
        moment."""
        from ministack.core.persistence import save_state
        from ministack.services import dynamodb

        self._changed_first = 0.0
        began = time.monotonic()
        try:
            state = dynamodb.get_state()
            await asyncio.to_thread(save_state, "dynamodb", state)
        except Exception:
            _log.exception("the tables could not be written; the next checkpoint tries again")
        ended = time.monotonic()
        self._not_before = ended + SHARE * (ended - began)

    def save_all(self) -> None:
        """Writes everything, and note which deployment that is."""
        from ministack import app
        from ministack.core.persistence import save_all

        save_all(app._build_persistence_save_dict())  # noqa: SLF001
        self.note_deployment()

    def is_saved(self) -> bool:
        """Whether the tables on disk are younger than their last change: the emulator reports no
        error of writing them."""
        try:
            return self._layout.tables.stat().st_mtime >= self._written_before - FILE_CLOCK_SECONDS
        except FileNotFoundError:
            return not self._written_before

    def note_deployment(self) -> None:
        """Records that the state on disk is that of the running deployment."""
        if self._layout.deployment_digest.exists():
            self._layout.deployment_digest.replace(self._layout.saved_digest)


def _load_transform() -> None:
    """Imports the modules that a deployment needs, which takes a second, while the launcher makes
    its own clients."""
    for module in ("samtranslator.translator.transform", "ministack.services.cloudformation"):
        importlib.import_module(module)


def _empty(folder: Path) -> None:
    """Removes functions that a stack which was killed left unpacked."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _raise_open_files() -> None:
    """Takes all the descriptors the system gives: every client connection and every function needs
    some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()

"""The one process of a running stack: ``python -m turnstile_local.gateway``, started by :mod:`turnstile_local.launch`.

It takes an already listening socket from its parent, so that the port is known to be free before anything starts,
and the stack's lock, which it holds until it dies. SIGTERM stops it in order: requests in flight end, then the
emulator writes its state.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import resource
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from turnstile_local.checkpoint import Checkpoint
from turnstile_local.layout import Layout


def main() -> None:
    """Serve until SIGTERM or SIGINT. Arguments are for the launcher only."""
    parser = argparse.ArgumentParser(description="The embedded development stack; start it with 'turnstile up'.")
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
    layout.deployed.unlink(missing_ok=True)
    checkpoint = Checkpoint(layout)
    asyncio.run(_serve(options, checkpoint))
    checkpoint.note_deployment()


async def _serve(options: argparse.Namespace, checkpoint: Checkpoint) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    from turnstile_local import patches
    from turnstile_local.asgi import Gateway

    patches.apply(Layout.at(options.home), deploys=options.deploys)
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
    await serve(Gateway(app, identity, checkpoint), config)  # type: ignore[arg-type]


def _load_transform() -> None:
    """Import what a deployment needs, which takes a second, while the launcher gets its own clients ready."""
    for module in ("samtranslator.translator.transform", "ministack.services.cloudformation"):
        importlib.import_module(module)


def _empty(folder: Path) -> None:
    """Remove functions that a stack which was killed left unpacked."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _raise_open_files() -> None:
    """Take all the descriptors the system gives: every client connection and every function needs some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()

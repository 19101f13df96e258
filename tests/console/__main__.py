"""Starts a server, fills it, and lets a browser look at every screen:
``python -m tests.console [--images FOLDER] [--keep]``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.console import issuer
from tests.console.lake import fill
from tests.support.auth.issuer import AUDIENCE
from tests.support.repository import ROOT
from turnstile.api.auth.verifier import fingerprint
from turnstile_server import Server

TOKEN = "the operator of the console's test"
READER = "a reader of the console's test"


def main() -> int:
    """Exit status of the browser's script."""
    parser = argparse.ArgumentParser(prog="python -m tests.console", description=__doc__)
    parser.add_argument("--images", type=Path, help="where screenshots are written to; none without it")
    parser.add_argument("--keep", action="store_true", help="fill a server, print its address, and wait for Enter")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, issuer.running() as issuer_url:
        reader = {fingerprint(READER): {"name": "rita", "roles": ["analysts"]}}
        variables = {
            "TURNSTILE_TOKENS": json.dumps(reader),
            "TURNSTILE_OIDC_ISSUER": issuer_url,
            "TURNSTILE_OIDC_AUDIENCE": AUDIENCE,
            "TURNSTILE_CONSOLE_CLIENT_ID": issuer.CLIENT,
            "TURNSTILE_ADMIN_NAMES": issuer.USER,
            "TURNSTILE_TOKEN_KEYS": f"k1:{'A' * 43}",
        }
        with Server.start(Path(home) / "server", 0, TOKEN, environment=variables) as server:
            known = fill(server.url, TOKEN)
            world = {"url": server.url, "token": TOKEN, "reader": READER, "images": str(asked.images or ""), **known}
            if asked.keep:
                print(json.dumps(world, indent=1))
                input()
                return 0
            environment = {**os.environ, "CONSOLE_WORLD": json.dumps(world)}
            script = ROOT / "console" / "tests" / "run.mjs"
            return subprocess.run(["node", str(script)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

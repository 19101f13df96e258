"""delta-kernel-rs' released crates as a client: a small program of ours around them, built once and
kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.downloads import Missing, alone, cache
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_server import Server

SOURCES = ROOT / "tests/clients/kernel_rs"
BUILD_SECONDS = 1500


def build() -> Path:
    """The program, built outside the checkout: cargo's lock and results are of one machine.

    The first build compiles some 300 crates, which takes a few minutes; later ones a second. Of two
    at a time one waits.

    Raises:
        Missing: there is no cargo that runs.
        AssertionError: it does not compile, or a crate cannot be downloaded.
    """
    cargo = shutil.which("cargo")
    if cargo is None or subprocess.run([cargo, "--version"], check=False, capture_output=True, cwd=SOURCES).returncode:
        raise Missing("there is no cargo here (Rust 1.88 or later)")
    home = cache("kernel_rs")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(home / "target"), "CARGO_NET_RETRY": "10"}
    with alone(home):
        shutil.copytree(SOURCES, home, dirs_exist_ok=True)
        ran = subprocess.run(
            [cargo, "build", "--quiet"],
            check=False,
            cwd=home,
            env=environment,
            text=True,
            capture_output=True,
            timeout=BUILD_SECONDS,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return home / "target" / "debug" / "turnstile-kernel-rs-client"


@dataclass(frozen=True)
class Kernel:
    """Commands of the program, for one table."""

    program: Path
    server: Server
    table: str

    def __call__(self, command: str, *numbers: int) -> dict[str, Any]:
        """The answer; ``error`` in it when the client gave up."""
        called = [
            str(self.program),
            self.server.url,
            self.server.token or "none",
            self.table,
            command,
            *map(str, numbers),
        ]
        environment = {
            **os.environ,
            "S3_ENDPOINT": getattr(self.server, "s3_endpoint", ""),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        ran = subprocess.run(called, check=False, env=environment, text=True, capture_output=True, timeout=60)
        assert ran.stdout, ran.stderr
        return dict(json.loads(ran.stdout))

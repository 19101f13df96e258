"""dynoxide: DynamoDB's API on SQLite, built once from its published crate and kept in the cache
folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.downloads import Missing, alone, cache

CRATE: Final = "dynoxide-rs"
VERSION: Final = "3.2.0"
RUST: Final = (1, 88)
BUILD_SECONDS: Final = 1800


def build() -> Path:
    """Returns the program. The first call compiles it by the crate's own lock: some 4 minutes on
    two processors. Of two processes at a time one waits.

    Raises:
        Missing: there is no cargo, or an older one, or the crate cannot be downloaded or built.
    """
    cargo = _cargo()
    home = cache("dynoxide")
    folder = home / VERSION
    with alone(home):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as name:
                built = Path(name) / "built"
                _install(cargo, built, home / "target")
                built.rename(folder)
            shutil.rmtree(home / "target", ignore_errors=True)
    return folder / "bin" / "dynoxide"


def _cargo() -> str:
    needed = ".".join(map(str, RUST))
    remedy = f"install Rust {needed} or later"
    cargo = shutil.which("cargo")
    if cargo is None:
        raise Missing(f"dynoxide {VERSION} is built by cargo, and there is none: {remedy}")
    done = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if done.returncode or tuple(map(int, words[1].split(".")[:2])) < RUST:
        raise Missing(f"dynoxide {VERSION} does not build with {done.stdout.strip() or cargo}: {remedy}")
    return cargo


def _install(cargo: str, folder: Path, target: Path) -> None:
    """Builds the program into ``folder``. A build that was interrupted goes on from ``target``."""
    command = [cargo, "install", "--quiet", CRATE, "--version", VERSION, "--locked", "--root", str(folder)]
    environment = {**os.environ, "CARGO_NET_RETRY": "10", "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    if done.returncode:
        raise Missing(f"dynoxide {VERSION} could not be built: {done.stderr[-500:].strip()}")

"""template.yaml and its built layers on an emulator of AWS that runs already: ``python -m
turnstile_local.emulator --lake s3://lake/w``.

The emulator is found as LocalStack's own tools find theirs (``localstack-client``):
``AWS_ENDPOINT_URL``, else ``LOCALSTACK_HOST``, else port 4566 of this machine. The layers are built
as for AWS (``layers/build.py``), but for this machine's architecture and the Python that runs this,
by which such an emulator runs functions. Tried with ministack (tests/artefacts), and with no other.
"""

from __future__ import annotations

import argparse
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from localstack_client import config

from turnstile_local.deployment import Package, deploy, keep_secret, parameters_for, project_root
from turnstile_local.errors import StackError
from turnstile_local.settings import HOST, Keys

KEYS: Final = Keys("test", "test")
"""Emulators take any key, and read the account from its id."""

PATIENCE_S: Final = 120.0

_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
LAYERS: Final = {"SharedLayer": "shared", "ArrowLayer": "arrow"}
"""The name in layers/build.py of each layer of template.yaml."""


class Deployed(NamedTuple):
    """``url`` of the HTTP API, and the outputs of template.yaml."""

    url: str
    outputs: dict[str, str]


def endpoint() -> str:
    """The address of the emulator that runs. Raises StackError if the environment names none that
    can be read."""
    try:
        address: str | None = config.get_service_endpoint("cloudformation")
    except RuntimeError as error:
        raise StackError(str(error), remedy="correct LOCALSTACK_HOST, a name and a port", kind="NoEmulator") from error
    if not address:
        raise StackError("no endpoint for CloudFormation", remedy="set AWS_ENDPOINT_URL", kind="NoEmulator")
    return address.rstrip("/")


def own_architecture() -> str:
    """That of this machine, as Lambda calls it. Raises StackError for one that Lambda does not
    know."""
    machine = platform.machine().lower()
    if machine not in _MACHINES:
        raise StackError(f"Lambda has no architecture {machine}", remedy="use a server instead: turnstile up")
    return _MACHINES[machine]


def build(layer: str, folder: Path, architecture: str) -> Path:
    """Builds a layer into ``folder/python`` for ``architecture`` and the present Python. Raises
    StackError with the builder's message."""
    done = subprocess.run(
        [sys.executable, str(project_root() / "layers/build.py"), layer, str(folder / "python"),
         "--architecture", architecture, "--python", ".".join(map(str, sys.version_info[:2]))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StackError(
            f"the layer {layer} could not be built: {done.stderr[-1_000:]}",
            remedy="see that a package index can be reached",
            kind="BuildFailed",
        )
    return folder


def deploy_to(address: str, lake_root: str, token: str, *, layers: Mapping[str, Path], architecture: str) -> Deployed:
    """Deploys at ``address`` with these folders as the layers of these names. Raises StackError."""
    if not lake_root.startswith("s3://"):
        raise StackError(f"functions elsewhere do not see {lake_root}", remedy="give an s3:// lake", kind="BadLake")
    package = Package.of(project_root(), layers=layers, architecture=architecture)
    if token:
        keep_secret(address, KEYS, {"token": token, "token_keys": f"local:{secrets.token_urlsafe(32)}"})
    overrides = {"LayerMode": "layer"} if layers else {}
    outputs = deploy(address, KEYS, package, parameters_for(lake_root.rstrip("/"), token, overrides))
    return Deployed(f"{address}/_aws/execute-api/{outputs['ApiId']}/$default", outputs)


@contextmanager
def own_ministack(folder: Path) -> Iterator[str]:
    """The address of a ministack of its own, in an environment that has it and no Turnstile. Ends
    with the block. Raises StackError."""
    python = folder / "environment" / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(folder / "environment")],
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), "--require-hashes",
         "--requirement", str(project_root() / "requirements/local.txt")],
    ):  # fmt: skip
        _run(command)
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    names = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": HOST,
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "AWS_", "PYTHON"))}
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-m", "ministack"], env={**clean, **names}, stdout=log, stderr=log, cwd=folder
        )
        try:
            _wait_for(port, process, folder / "emulator.log")
            yield f"http://{HOST}:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(
            f"{' '.join(command[:4])} failed: {done.stderr[-1_000:]}", remedy="see that a package index can be reached"
        )


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise StackError(f"the emulator does not listen: {log.read_text()[-1_000:]}", kind="NoEmulator")


def main() -> None:
    """Builds, deploys and prints where the API is."""
    parser = argparse.ArgumentParser(
        prog="python -m turnstile_local.emulator", description="Deploy to an emulator of AWS that runs."
    )
    parser.add_argument("--lake", default="s3://lake/warehouse", help="root of new tables, s3://bucket/prefix")
    parser.add_argument("--token", default="", help="operator's token; without one every caller may do everything")
    options = parser.parse_args()
    try:
        address = endpoint()
        architecture = own_architecture()
        with tempfile.TemporaryDirectory() as folder:
            layers = {name: build(layer, Path(folder) / layer, architecture) for name, layer in LAYERS.items()}
            deployed = deploy_to(address, options.lake, options.token, layers=layers, architecture=architecture)
    except StackError as error:
        sys.exit(f"error: {error.message}\nremedy: {error.remedy}")
    print(f"the emulator: {address}; the API: {deployed.url}")


if __name__ == "__main__":
    main()

"""template.yaml on a LocalStack that runs already: ``python -m turnstile_local.localstack --lake s3://lake/warehouse``.

LocalStack is found as its other tools find it (``localstack-client``): ``AWS_ENDPOINT_URL``, else ``LOCALSTACK_HOST``, else port 4566
of this machine. It runs functions in containers that see nothing of this environment, of the machine's own architecture. So every
function's archive carries the layer's packages, built for that; the layer, which is for arm64, is left out.

This project's tests have no LocalStack. They run discovery, build and deployment against the emulator of the embedded stack.
LocalStack needs an edition with HTTP APIs (API Gateway v2).
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from localstack_client import config

from turnstile_local.deployment import Package, deploy, parameters_for, project_root, read_template
from turnstile_local.errors import StackError
from turnstile_local.settings import Keys

KEYS: Final = Keys("test", "test")
"""What LocalStack's own tools sign with: it takes any key, and reads the account from its id."""

_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
_PLATFORMS: Final = {"x86_64": "manylinux2014_x86_64", "arm64": "manylinux2014_aarch64"}


class Deployed(NamedTuple):
    """``endpoint`` of LocalStack, ``url`` of the HTTP API in it, and the outputs of template.yaml."""

    endpoint: str
    url: str
    outputs: dict[str, str]


def endpoint() -> str:
    """The address of LocalStack. Raises StackError if the environment names none that can be read."""
    try:
        address: str | None = config.get_service_endpoint("cloudformation")
    except RuntimeError as error:
        raise StackError(
            str(error), remedy="correct LOCALSTACK_HOST, a name and a port", kind="NoLocalStack"
        ) from error
    if not address:
        raise StackError("no endpoint for CloudFormation", remedy="set LOCALSTACK_HOST", kind="NoLocalStack")
    return address


def own_architecture() -> str:
    """That of this machine, as Lambda calls it. Raises StackError for one that Lambda does not know."""
    machine = platform.machine().lower()
    if machine not in _MACHINES:
        raise StackError(f"Lambda has no architecture {machine}", remedy="use a server instead: turnstile up")
    return _MACHINES[machine]


def build(folder: Path, architecture: str) -> Path:
    """Puts the layer's packages, as locked, and our own into ``folder``, for the functions' Python on
    ``architecture``. Raises StackError with what pip says."""
    root = project_root()
    runtime = read_template(root / "template.yaml")["Globals"]["Function"]["Runtime"].removeprefix("python")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
         "--only-binary=:all:", "--platform", _PLATFORMS[architecture], "--python-version", runtime,
         "--target", str(folder), "--requirement", str(root / "layers/requirements.txt")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StackError(
            f"the functions' packages could not be built: {done.stderr[-1_000:]}",
            remedy="see that a package index can be reached",
            kind="BuildFailed",
        )
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("turnstile", "turnstile_predicates"):
        shutil.copytree(root / "layers" / package, folder / package, ignore=ignored, dirs_exist_ok=True)
    return folder


def deploy_to(address: str, lake_root: str, token: str, *, packages: Path | None, architecture: str) -> Deployed:
    """Deploys at ``address``, with the archives of functions made self-contained by ``packages``. Raises StackError."""
    if not lake_root.startswith("s3://"):
        raise StackError(f"functions in containers do not see {lake_root}", remedy="give an s3:// lake", kind="BadLake")
    package = Package.of(project_root(), packages=packages, architecture=architecture)
    outputs = deploy(address, KEYS, package, parameters_for(lake_root.rstrip("/"), token))
    parts = urlsplit(address)
    url = f"{parts.scheme}://{outputs['ApiId']}.execute-api.localhost.localstack.cloud:{parts.port or 4566}"
    return Deployed(address, url, outputs)


def main() -> None:
    """Builds, deploys and prints where the API is."""
    parser = argparse.ArgumentParser(prog="python -m turnstile_local.localstack", description="Deploy to LocalStack.")
    parser.add_argument("--lake", default="s3://lake/warehouse", help="root of new tables, s3://bucket/prefix")
    parser.add_argument("--token", default="", help="operator's token; without one everybody may do everything")
    options = parser.parse_args()
    try:
        address, architecture = endpoint(), own_architecture()
        with tempfile.TemporaryDirectory() as folder:
            packages = build(Path(folder), architecture)
            deployed = deploy_to(address, options.lake, options.token, packages=packages, architecture=architecture)
    except StackError as error:
        sys.exit(f"error: {error.message}\nremedy: {error.remedy}")
    print(f"LocalStack at {deployed.endpoint}; the API: {deployed.url}")


if __name__ == "__main__":
    main()

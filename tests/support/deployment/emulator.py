"""LocalEmu in the root of ``root.py``, with functions as processes of ``awslambdaric``; and SAM's
command line against it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.deployment.root import Root
from tests.support.repository import ROOT
from turnstile_local.deployment import aws_client
from turnstile_local.emulator import KEYS, own_architecture
from turnstile_local.routes import ACCOUNT
from turnstile_local.settings import HOST, REGION, STACK_NAME
from turnstile_release import version

PATIENCE_S: Final = 120.0
_PLUGIN: Final = "[localemu.lambda.runtime_executor]\nprocess = executor:ProcessPlugin\n"


class SamError(Exception):
    """A command of SAM failed; the message has the end of its output."""


@dataclass
class Emulator:
    """One that runs. ``work`` has the functions' logs, their figures and what SAM builds."""

    root: Root
    address: str
    work: Path
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each step took: the root, the emulator's start, commands of SAM."""

    version: str = ""
    """Of the code that was built."""

    @property
    def built(self) -> Path:
        """Returns the folder that ``sam build`` makes."""
        return self.work / "build"

    def aws(self, service: str) -> Any:
        """A client of the emulated AWS."""
        return aws_client(service, self.address, KEYS)

    def build(self) -> None:
        """``sam build``, for this machine's architecture, with the version that git knows: the root
        has no git."""
        self.version = version()
        variables = {"ARCHITECTURE": own_architecture(), "VERSION": self.version}
        self.sam(
            "build",
            "--template-file",
            str(ROOT / "template.yaml"),
            "--build-dir",
            str(self.built),
            variables=variables,
        )

    def deploy(self, parameters: Mapping[str, str]) -> None:
        """Deploys the build with ``sam deploy``."""
        given = [f"{name}={value}" for name, value in parameters.items()]
        self.sam(
            "deploy",
            "--no-confirm-changeset",
            "--template-file",
            str(self.built / "template.yaml"),
            "--parameter-overrides",
            *given,
        )

    def sam(self, command: str, *words: str, variables: Mapping[str, str] | None = None) -> str:
        """Runs SAM's command line as in a shell in the project's folder; returns its output. Raises
        SamError."""
        return self.run(
            "sam",
            ["sam", command, "--config-file", str(ROOT / "samconfig.toml"), *words],
            label=f"sam {command}",
            variables=variables,
        )

    def run(self, environment: str, words: list[str], *, label: str, variables: Mapping[str, str] | None = None) -> str:
        """Runs a program of an environment in the root; returns its output. Raises SamError."""
        given = {
            "AWS_ENDPOINT_URL": self.address, "AWS_ACCESS_KEY_ID": KEYS.access_key,
            "AWS_SECRET_ACCESS_KEY": KEYS.secret_key,
            "AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0", "TMPDIR": str(self.work),
            "PATH": f"{self.root.program(environment, '')}:/usr/bin:/bin", **(variables or {}),
        }  # fmt: skip
        program = [self.root.program(environment, words[0]), *words[1:]]
        began = time.monotonic()
        command = self.root.command(program, folders=[ROOT, self.work], variables=given, at=ROOT)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.seconds[label] = self.seconds.get(label, 0.0) + time.monotonic() - began
        if done.returncode:
            raise SamError(f"{label}: {done.stdout[-3000:]}")
        return done.stdout

    def stack_status(self) -> str | None:
        """Status of the stack; None if there is none."""
        formation = self.aws("cloudformation")
        try:
            return str(formation.describe_stacks(StackName=STACK_NAME)["Stacks"][0]["StackStatus"])
        except formation.exceptions.ClientError:
            return None


@contextmanager
def started(root: Root, work: Path) -> Iterator[Emulator]:
    """An emulator of its own with nothing in it. Ends with the block, and so do the functions'
    processes."""
    for name in ("logs", "tmp", "plugin"):
        (work / name).mkdir()
    for module in ("executor.py", "rights.py", "row_requests.py"):
        shutil.copy(Path(__file__).with_name(module), work / "plugin" / module)
    about = work / "plugin/process_executor-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: process-executor\nVersion: 1\n")
    (about / "entry_points.txt").write_text(_PLUGIN)
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    variables = {
        "GATEWAY_LISTEN": f"{HOST}:{port}", "LAMBDA_RUNTIME_EXECUTOR": "process", "PYTHONPATH": str(work / "plugin"),
        "TMPDIR": str(work / "tmp"), "XDG_CACHE_HOME": str(work / "tmp"), "LAMBDA_KEEPALIVE_MS": "3600000",
        "TURNSTILE_LOGS": str(work / "logs"), "TURNSTILE_FIGURES": str(work / "figures.jsonl"),
        "TURNSTILE_RUNTIME_PYTHON": root.program("lambda", "python"), "DOCKER_HOST": "unix:///nonexistent/docker.sock",
        "IAM_ENFORCEMENT": "1", "ROOT_ACCESS_KEYS": f"{KEYS.access_key},{ACCOUNT}",
        "TURNSTILE_VERDICTS": str(work / "verdicts.jsonl"),
        "LS_LOG": "trace",  # what CloudFormation asks other services for is logged at that level alone (deployer.py)
    }  # fmt: skip
    words = [root.program("localemu", "python"), "-m", "row_requests"]
    command = root.command(words, folders=[work], variables=variables, at=work)
    began = time.monotonic()
    with (work / "emulator.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    emulator = Emulator(root, f"http://{HOST}:{port}", work)
    try:
        _wait_for(emulator, process)
        emulator.seconds["emulator"] = time.monotonic() - began
        yield emulator
    finally:
        process.kill()  # SIGTERM does not reach what unshare started
        process.wait()


def _wait_for(emulator: Emulator, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(f"{emulator.address}/_localemu/health", timeout=5, trust_env=False).raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise RuntimeError(f"LocalEmu does not answer: {(emulator.work / 'emulator.log').read_text()[-2000:]}")

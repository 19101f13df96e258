"""The deployed stack as clients see it, and the logs and costs of its functions."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import botocore.session
import httpx

from tests.support.deployment.emulator import KEYS, Emulator, started
from tests.support.deployment.root import Root
from turnstile.store.core.errors import OutcomeUnknown, Throttled
from turnstile_local.deployment import keep_secret
from turnstile_local.routes import ACCOUNT, make_routes, stack_at
from turnstile_local.settings import REGION, SECRET_ARN, STACK_NAME

TOKEN: Final = "a-token-for-tests"
LAKE: Final = "lake"
PARAMETERS: Final = {
    "LakeRoot": f"s3://{LAKE}/warehouse",
    "Secret": SECRET_ARN,
    "IssueTokens": "true",
    "Console": "true",
    "RowsFrom": "queue",
    "RowsTable": "main.default.clicks",
    "DeletionProtection": "false",
}
_SECRET: Final = {"token": TOKEN, "token_keys": f"local:{'k' * 43}"}


@dataclass
class Deployment:
    """``url`` is the HTTP API's, ``parameters`` are the ones of the last deployment."""

    emulator: Emulator
    url: str
    parameters: dict[str, str]
    token: str = TOKEN

    def client(self) -> httpx.Client:
        """A client of the API."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    def aws(self, service: str) -> Any:
        """A client of the emulated AWS."""
        return self.emulator.aws(service)

    @property
    def s3(self) -> dict[str, str]:
        """Where the lake's files are, as the clients of this project take it."""
        return {
            "endpoint": self.emulator.address, "region": REGION,
            "access_key": KEYS.access_key, "secret_key": KEYS.secret_key,
        }  # fmt: skip

    def update(self, **parameters: str) -> None:
        """Deploys the build, with these parameters changed."""
        self.parameters |= parameters
        self.emulator.deploy(self.parameters)

    def function(self, logical: str) -> str:
        """The name of a function by that in the template."""
        formation = self.aws("cloudformation")
        found = formation.describe_stack_resource(StackName=STACK_NAME, LogicalResourceId=logical)
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def role(self, function: str) -> str:
        """The name of a function's role."""
        found = self.aws("lambda").get_function_configuration(FunctionName=self.function(function))
        return str(found["Role"].rpartition("/")[2])

    def session_of(self, function: str) -> Any:
        """A client of DynamoDB with a session of a function's role, which trusts this account
        afterwards."""
        name = self.role(function)
        trusted = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trusted]})
        self.aws("iam").update_assume_role_policy(RoleName=name, PolicyDocument=document)
        arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        keys = self.aws("sts").assume_role(RoleArn=arn, RoleSessionName="tests")["Credentials"]
        return botocore.session.get_session().create_client(
            "dynamodb", region_name=REGION, endpoint_url=self.emulator.address, aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"], aws_session_token=keys["SessionToken"],
        )  # fmt: skip

    def verdicts(self) -> list[dict[str, Any]]:
        """The emulator's verdicts on the functions' calls so far (``rights.py``)."""
        return [json.loads(line) for line in (self.emulator.work / "verdicts.jsonl").read_text().splitlines()]

    def invoke(self, logical: str, event: dict[str, Any]) -> dict[str, Any]:
        """The answer of a function to an event. Fails if it raises."""
        answer = self.aws("lambda").invoke(FunctionName=self.function(logical), Payload=json.dumps(event))
        payload = answer["Payload"].read()
        assert "FunctionError" not in answer, payload
        return dict(json.loads(payload))


@contextmanager
def deployment(root: Root, work: Path) -> Iterator[Deployment]:
    """An emulator with the stack and a namespace. Ends with the block."""
    with started(root, work) as emulator:
        emulator.build()
        emulator.aws("s3").create_bucket(Bucket=LAKE)
        keep_secret(emulator.address, KEYS, _SECRET)
        emulator.deploy(PARAMETERS)
        began = time.monotonic()
        url = make_routes(emulator.address, stack_at(emulator.address, STACK_NAME, emulator.built / "template.yaml"))
        emulator.seconds["routes"] = time.monotonic() - began
        stack = Deployment(emulator, url, dict(PARAMETERS))
        with stack.client() as api:
            api.post("/v1/catalogs", json={"name": "main"}).raise_for_status()
            api.post("/v1/catalogs/main/namespaces", json={"name": "default"}).raise_for_status()
        yield stack


_PASSING: Final = (Throttled.type, OutcomeUnknown.type)
"""Types of problems that the next run mends: writes that met others under load, and answers that
were lost (LocalEmu's DynamoDB answers a few of the writes that come at the same time with
InternalError)."""


def errors_in(logs: Path) -> dict[str, list[str]]:
    """Returns the lines of each log with an error, without lines that its runs leave alone: records
    of that level, and lines that are neither records nor empty. Figures of a run that failed are
    none where all its problems are of a kind that the next run mends.
    """
    found: dict[str, list[str]] = {}
    for log in sorted(logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        problems = {line: problem for line in lines if (problem := _record(line).get("problem"))}
        passing = bool(problems) and all(problem.get("type") in _PASSING for problem in problems.values())
        if wrong := [line for line in lines if _is_error(line) and not (passing and "_aws" in _record(line))]:
            found[log.stem] = [*problems, *wrong]
    return found


def _record(line: str) -> dict[str, Any]:
    """Returns the record that a line of a log is; an empty one where it is none."""
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _is_error(line: str) -> bool:
    record = _record(line)
    return bool(line.strip()) and (not record or record.get("level") in ("ERROR", "CRITICAL") or "errorType" in record)


def longest_start_s(file: Path) -> float:
    """The longest cold start of a function so far: of its process and of its first call."""
    taken: dict[str, float] = defaultdict(float)
    for line in file.read_text().splitlines():
        one = json.loads(line)
        if one["event"] in ("start", "first call"):
            taken[one["sandbox"]] += one["ms"] / 1000
    return max(taken.values())


def figures(file: Path) -> list[str]:
    """A table of the costs of starts and calls of each function: median, and how much of a
    processor."""
    measured: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in file.read_text().splitlines():
        one = json.loads(line)
        measured[one["function"], one["event"]].append(one)
    lines = [f"{'function':<12}{'event':<13}{'count':>6}{'p50 ms':>10}{'p50 CPU ms':>12}{'max ms':>10}"]
    for (name, event), each in sorted(measured.items()):
        taken = [one["ms"] for one in each]
        cpu = [one["cpu_ms"] for one in each if one["cpu_ms"] is not None] or [math.nan]
        lines.append(
            f"{name:<12}{event:<13}{len(each):>6}{statistics.median(taken):>10.0f}{statistics.median(cpu):>12.1f}"
            f"{max(taken):>10.0f}"
        )
    return lines

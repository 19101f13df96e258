"""Restoring the tables of DynamoDB, by the commands of docs/operations.md word by word, on the
emulated deployment (I1, I4).

The commands run in Bash with an ``aws`` of these tests (tests/support/roles/aws_cli.py), or with
the real one where ``TURNSTILE_AWS_CLI`` names it. Of the emulator's point-in-time recovery the test
makes one: it puts the rows of the moment into the table that was restored.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.repository import ROOT
from tests.support.stack import Table

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

STOPPED = ("PublishFunction", "EventsFunction", "MaintainFunction", "SweepFunction", "CollectFunction")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    from turnstile_local import Stack

    with Stack.start(
        tmp_path_factory.mktemp("restored"), port=0, token="s3cret", lake="s3://lake/warehouse"
    ) as running:
        yield running


def blocks() -> list[str]:
    """The commands of the section, in their order: first the functions, then those of each step."""
    page = (ROOT / "docs/operations.md").read_text()
    section = page.partition("## Restoring tables of DynamoDB\n")[2].partition("\n## ")[0]
    found = re.findall(r"^( *)```sh\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def written(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)


class Shell:
    """Bash, with the functions of the page, on a machine that has the AWS command line, Python and
    Turnstile's own."""

    def __init__(self, stack: Stack, folder: Path, functions: str) -> None:
        self._functions = functions
        real = os.environ.get("TURNSTILE_AWS_CLI")
        aws = f'exec "{real}" "$@"' if real else f'exec "{sys.executable}" "{ROOT}/tests/support/roles/aws_cli.py" "$@"'
        written(folder, "aws", f"#!/bin/sh\n{aws}\n")
        written(folder, "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        written(folder, "turnstile", f'#!/bin/sh\nexec "{Path(sys.executable).parent}/turnstile" "$@"\n')
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TURNSTILE_"))}
        self._environment = {
            **plain, **stack.env, "PATH": f"{folder}:{os.environ['PATH']}", "AWS_PAGER": "", "PYTHONPATH": str(ROOT),
            "TURNSTILE_URL": stack.url, "TURNSTILE_TOKEN": "s3cret",
        }  # fmt: skip

    def run(self, block: str) -> str:
        """What a block prints. Fails where one of its commands fails."""
        script = f"set -euo pipefail\n{self._functions}\n{block}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def rows(stack: Stack, table: str) -> list[Any]:
    return [
        row for page in stack.aws("dynamodb").get_paginator("scan").paginate(TableName=table) for row in page["Items"]
    ]


def rewind(stack: Stack, table: str, then: list[Any]) -> None:
    """Makes a restored table what point-in-time recovery makes it."""
    client = stack.aws("dynamodb")
    keys = [part["AttributeName"] for part in client.describe_table(TableName=table)["Table"]["KeySchema"]]
    for row in rows(stack, table):
        client.delete_item(TableName=table, Key={name: row[name] for name in keys})
    for row in then:
        client.put_item(TableName=table, Item=row)


def limits(stack: Stack) -> dict[str, int | None]:
    """Reserved concurrency of the functions that run by themselves."""
    client = stack.aws("lambda")
    return {
        name: client.get_function_concurrency(FunctionName=stack.state.outputs[name]).get(
            "ReservedConcurrentExecutions"
        )
        for name in STOPPED
    }


def rates(stack: Stack) -> dict[str, str]:
    (described,) = stack.aws("cloudformation").describe_stacks(StackName="turnstile")["Stacks"]
    return {each["ParameterKey"]: each["ParameterValue"] for each in described["Parameters"]}


def test_i1_i4_tables_are_restored_by_the_commands_of_the_page(deployed: Stack, tmp_path: Path) -> None:
    functions, close, restore, copy_back, repair, again = blocks()
    shell = Shell(deployed, tmp_path, functions)
    headers = {"authorization": "Bearer s3cret"}
    table = Table(deployed, headers=headers)
    for version in (1, 2, 3):
        table.append(version)
    table.published(3)
    outputs = deployed.state.outputs
    then = {name: rows(deployed, outputs[name]) for name in ("RefsTable", "ObjsTable")}
    for version in (4, 5, 6):
        table.append(version)
    acknowledged = {version: table.published(version) for version in range(7)}
    late = Table(deployed, headers=headers)
    before = rates(deployed)
    code = {one["FunctionName"]: one["CodeSha256"] for one in deployed.aws("lambda").list_functions()["Functions"]}

    shell.run(close)
    assert limits(deployed) == dict.fromkeys(STOPPED, 0)
    closed = rates(deployed)
    assert (closed["ApiRateLimit"], closed["ApiBurstLimit"]) == ("0", "0")
    assert {**closed, "ApiRateLimit": "", "ApiBurstLimit": ""} == {**before, "ApiRateLimit": "", "ApiBurstLimit": ""}

    shell.run(restore)
    for name, restored in (("RefsTable", "turnstile-refs-restored"), ("ObjsTable", "turnstile-objs-restored")):
        rewind(deployed, restored, then[name])
    told = shell.run(copy_back)
    assert told
    keys = {row["key"]["S"] for row in rows(deployed, outputs["RefsTable"])}
    assert keys == {row["key"]["S"] for row in then["RefsTable"]} and not any(late.id in key for key in keys)

    repaired = shell.run(repair)
    assert '"restored"' in repaired
    still = {"EventsFunction": 0, "MaintainFunction": 0, "CollectFunction": 0}
    assert limits(deployed) == {"PublishFunction": None, "SweepFunction": None, **still}

    shell.run(again)
    assert limits(deployed) == dict.fromkeys(STOPPED)
    opened = rates(deployed)
    assert (opened["ApiRateLimit"], opened["ApiBurstLimit"]) == ("2000", "4000")
    names = deployed.aws("dynamodb").list_tables()["TableNames"]
    assert not any("restored" in name for name in names)
    assert code == {
        one["FunctionName"]: one["CodeSha256"] for one in deployed.aws("lambda").list_functions()["Functions"]
    }

    head = table.settled(60)
    assert (head["latest"], head["floor"], head["state"]) == (6, 6, "active")
    assert {version: table.storage.version(version) for version in range(7)} == acknowledged
    table.append(7, str(uuid.uuid4()))
    assert table.published(7)
    assert httpx.get(f"{deployed.url}/v1/tables/{late.id}/head", headers=headers, trust_env=False).status_code == 404


def test_the_page_stops_every_function_that_writes_rows_by_itself() -> None:
    from turnstile_local.deployment import read_template

    resources = read_template(ROOT / "template.yaml")["Resources"]
    by_itself = {name for name, resource in resources.items() if resource.get("Properties", {}).get("Events")}
    assert by_itself == set(STOPPED)
    assert all(name in blocks()[1] for name in STOPPED)
    assert "sam deploy" not in "".join(blocks()), "a checkout that was not built has no layers"

"""A table's whole life on a server, and on the emulated deployment with its lake in S3: both kinds
of commit, both of lake.

The deployment holds every function to its role: a permission that is missing in template.yaml fails
here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.fakes import delta
from tests.support.stack import NAMESPACE, Storage, Table, commit_info, eventually, now_ms

if TYPE_CHECKING:
    from turnstile_local import Stack
    from turnstile_server import Server


@pytest.fixture(params=["server", pytest.param("s3_stack", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest) -> Server | Stack:
    return request.getfixturevalue(request.param)


def functions_log(stack: Stack) -> str:
    return (Path(stack.home) / "log" / "functions.log").read_text()


def test_main_and_default_exist_from_the_start(lake: Server | Stack) -> None:
    with lake.client() as api:
        assert [found["name"] for found in api.get("/v1/catalogs").json()["catalogs"]] == ["main"]
        assert api.get(NAMESPACE).json()["name"] == "default"


def test_commits_are_ratified_and_published_by_themselves(lake: Server | Stack) -> None:
    table = Table(lake)
    assert table.append(1)["commit"]["kind"] == "inline"
    assert table.stage(2)["commit"]["kind"] == "staged"
    assert table.append(3)["latest"] == 3
    content = table.get("commits", content="true")["commits"][-1]
    last = table.published(3)
    if "content" in content:
        assert last == content["content"].encode(), "I4: published bytes equal ratified bytes"
    assert [commit_info(table.published(v))["operation"] for v in (1, 2, 3)] == ["WRITE"] * 3
    head = eventually(lambda: (h := table.get("head"))["floor"] == 3 and h)
    assert head["latest"] == 3


def test_a_lost_race_is_reported_with_its_winners(lake: Server | Stack) -> None:
    table = Table(lake)
    table.append(1, txn="first")
    lost = table.propose(1, txn="second")
    assert lost.status_code == 409
    error = lost.json()["error"]
    assert (error["type"], error["latest"]) == ("CommitVersionConflict", 1)
    assert error["winners"][0]["txn_id"] == "first"
    assert table.append(1, txn="first")["outcome"] == "replayed"
    assert table.get("outcome", txn_id="first", version=1)["outcome"] == "ratified"
    assert table.get("outcome", txn_id="second", version=1)["outcome"] == "never"


def test_a_ticket_takes_the_next_version(lake: Server | Stack) -> None:
    table = Table(lake)
    table.append(1)
    answer = table.propose(None, base=0)
    assert answer.status_code == 200, answer.text
    assert answer.json()["commit"]["version"] == 2
    assert table.published(2) == answer.json()["commit"]["content"].encode()


def test_large_inline_content_goes_by_an_obj(lake: Server | Stack) -> None:
    table = Table(lake)
    files = [delta.add(f"{n:05d}-{'x' * 20}.parquet") for n in range(700)]
    content = delta.lines(delta.info("large", now_ms()), *files)
    assert 60_000 < len(content) < 262_144
    table.ask("POST", f"/v1/tables/{table.id}/commits", {"version": 1, "inline": {"content": content.decode()}})
    assert table.published(1) == content


def test_load_by_name_rename_publish_and_drop(lake: Server | Stack) -> None:
    table = Table(lake)
    table.append(1)
    loaded = table.ask("GET", f"{NAMESPACE}/tables/{table.name}")
    assert (loaded["table_id"], loaded["latest"]) == (table.id, 1)
    listed = table.get("commits", start=0)
    for commit in listed["commits"]:
        assert commit["published"] or table.storage.read(f"_delta_log/_staged_commits/{commit['name']}")
    assert table.ask("POST", f"/v1/tables/{table.id}/publish", {})["floor"] == 1
    renamed = table.ask("POST", f"{NAMESPACE}/tables/{table.name}/rename", {"name": f"{table.name}_new"})
    assert renamed["name"] == f"main.default.{table.name}_new"
    table.ask("DELETE", f"{NAMESPACE}/tables/{table.name}_new")
    assert table.api.get(f"{NAMESPACE}/tables/{table.name}_new").status_code == 404
    refused = table.propose(2)
    assert (refused.status_code, refused.json()["error"]["type"]) == (409, "TableNotActive")


def test_namespaces_come_and_go(lake: Server | Stack) -> None:
    with lake.client() as api:
        name = f"{NAMESPACE.rsplit('/', 1)[0]}/sales.eu"
        for level in ("sales", "sales.eu"):
            made = api.post(NAMESPACE.rsplit("/", 1)[0], json={"name": level})
            assert made.status_code in (201, 409), made.text
        assert api.patch(name, json={"comment": "Europe"}).json()["comment"] == "Europe"
        assert api.delete(name).status_code == 204
        assert api.get(name).status_code == 404


def test_import_and_export(lake: Server | Stack) -> None:
    root = lake.lake_root.rsplit("/", 1)[0] + "/legacy"
    name = f"imported_{now_ms()}"
    storage = Storage(lake, f"{root}/{name}")
    old = delta.metadata()
    del old["metaData"]["configuration"]["delta.enableInCommitTimestamps"]
    plain = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    commit = {"commitInfo": {"timestamp": now_ms(), "operation": "CREATE TABLE"}}
    storage.write(f"_delta_log/{0:020d}.json", delta.lines(commit, plain, old))
    with lake.client() as api:
        asked = {"name": name, "location": f"{root}/{name}"}
        dry = api.post(f"{NAMESPACE}/imports", json={**asked, "dry_run": True})
        assert dry.status_code == 200, dry.text
        assert storage.version(1) is None
        done = api.post(f"{NAMESPACE}/imports", json={**asked, "dry_run": False})
        assert done.status_code == 201, done.text
        assert storage.version(1) is not None
        gone = api.post(f"{NAMESPACE}/tables/{name}/export", json={"dry_run": False})
        assert gone.status_code == 200, gone.text
        assert api.get(f"{NAMESPACE}/tables/{name}").status_code == 404


def test_gc_reports_and_collects(lake: Server | Stack) -> None:
    with lake.client() as api:
        dry = api.post("/v1/gc", json={"dry_run": True})
        assert dry.status_code == 200, dry.text
        assert dry.json()["deleted"] == 0
        assert api.post("/v1/gc", json={"dry_run": False}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("function", ["SweepFunction", "CollectFunction"])
def test_schedules_invoke_what_works(s3_stack: Stack, function: str) -> None:
    table = Table(s3_stack)
    table.append(1)
    answer = s3_stack.aws("lambda").invoke(
        FunctionName=s3_stack.state.outputs[function],
        Payload=b'{"source": "aws.events", "detail-type": "Scheduled Event"}',
    )
    assert "FunctionError" not in answer, answer["Payload"].read()


@pytest.mark.slow
def test_no_function_was_denied_anything(s3_stack: Stack) -> None:
    """I12, and last in this file: roles are enforced on the stack in S3."""
    denied = [
        line for line in functions_log(s3_stack).splitlines() if "AccessDenied" in line or "not authorized" in line
    ]
    assert not denied, denied[:3]

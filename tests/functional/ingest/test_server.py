"""Rows to a real server with real files: bodies that are no text, callers at once, publication."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest

from tests.support.cli import run
from tests.support.fakes.rows import ARROW, CSV, PARQUET, arrow_body, parquet_body
from turnstile_client import Table, connect
from turnstile_client.rows import RejectedRows
from turnstile_server import Server

ROWS = pa.table({"id": [1, 2], "city": ["Bern", None]})


@pytest.fixture
def table(server: Server) -> Iterator[Table]:
    with connect(server.url) as lake:
        yield lake.create(f"default.rows_{uuid4().hex[:12]}", ROWS.schema)


def send(
    http: httpx.Client, table: Table, body: bytes, media: str = "application/json", **headers: str
) -> httpx.Response:
    path = f"/v1/catalogs/main/namespaces/default/tables/{table.name.rpartition('.')[2]}/rows"
    sent = {"content-type": media, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return http.post(path, content=body, headers=sent)


def test_bodies_that_are_no_text_are_read_and_published(server: Server, table: Table) -> None:
    bodies = [
        (arrow_body(ROWS), ARROW, ""),
        (gzip.compress(b"id,city\n1,Bern\n2,\n"), CSV, "gzip"),
        (pa.compress(parquet_body(ROWS), "zstd", asbytes=True), PARQUET, "zstd"),
    ]
    with server.client() as http:
        for version, (body, media, encoding) in enumerate(bodies, start=1):
            answer = send(http, table, body, media, **({"Content_Encoding": encoding} if encoding else {}))
            assert (answer.status_code, answer.json().get("version")) == (200, version), answer.text
        path = f"/v1/tables/{table._steps.load().table_id}/rows"
        last = http.post(path, json=[{"id": 3}], params={"wait": "publish"})
        assert (last.status_code, last.json()["published"]) == (200, True)
        assert send(http, table, b"x" * (4 * 1024 * 1024 + 1), CSV).status_code == 413
        assert send(http, table, b"\xff\xfe", CSV).json()["error"]["type"] == "InvalidRows"
    assert sorted(table.read()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3]


def test_i26_one_request_of_many_callers_at_once_is_added_once_and_others_are_all_added(
    server: Server, table: Table
) -> None:
    keys = [str(uuid4()) for _ in range(4)]
    requests = [(number, key) for number, key in enumerate(keys)] * 4

    def add(request: tuple[int, str]) -> tuple[str, int]:
        number, key = request
        with server.client() as http:
            answer = send(http, table, json.dumps([{"id": number}]).encode(), Idempotency_Key=key)
            assert answer.status_code == 200, answer.text
            return key, answer.json()["version"]

    with ThreadPoolExecutor(8) as pool:
        versions = set(pool.map(add, requests))
    assert len(versions) == 4, "each key has one version"
    assert sorted(table.read()["id"].to_pylist()) == [0, 1, 2, 3]


def test_i26_of_a_producers_requests_at_once_each_is_added_once(server: Server, table: Table) -> None:
    def add(sequence: int) -> tuple[int, int]:
        with server.client() as http:
            body = json.dumps([{"id": sequence}]).encode()
            answer = send(http, table, body, Turnstile_Producer="till", Turnstile_Sequence=str(sequence))
            assert answer.status_code == 200, answer.text
            return sequence, answer.json()["version"]

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(add, [number for number in range(6) for _ in range(2)]))
    assert len(answers) == 6, "each number has one version"
    assert sorted(table.read()["id"].to_pylist()) == list(range(6))


def test_rows_that_were_added_are_counted_and_those_of_a_replay_are_not(server: Server, table: Table) -> None:
    def counted() -> float:
        with server.client() as http:
            lines = http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("turnstile_rows_added_total"))

    before = counted()
    key = str(uuid4())
    table.append_rows([{"id": 1}, {"id": 2}], id=key)
    table.append_rows([{"id": 1}, {"id": 2}], id=key)
    assert counted() - before == 2


def test_columns_that_the_table_lacks_are_added_from_every_client(server: Server, table: Table, tmp_path: Path) -> None:
    table.append_rows([{"id": 1, "score": 0.5}], evolve=True)
    with table.producer(evolve=True) as rows:
        rows.add({"id": 2, "tags": ["a"]})
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": 3, "open": true}\n')
    ended = run("ingest", table.name, str(file), "--evolve", "--url", server.url)
    assert ended.exit_code == 0, ended.output
    assert table.schema().names == ["id", "city", "score", "tags", "open"]
    found = sorted(table.read(["id", "score", "tags", "open"]).to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "score": 0.5, "tags": None, "open": None},
        {"id": 2, "score": None, "tags": ["a"], "open": None},
        {"id": 3, "score": None, "tags": None, "open": True},
    ]


def test_rows_that_do_not_fit_go_into_the_table_beside_from_every_client(
    server: Server, table: Table, tmp_path: Path
) -> None:
    told: list[RejectedRows] = []
    version = table.append_rows([{"id": 1}, {"id": "x"}], on_rejected=told.append)
    with table.producer(on_rejected=told.append) as rows:
        rows.add({"id": 2}, {"id": 3, "unknown": 1})
    file = tmp_path / "rows.csv"
    file.write_text("id,city\n4,Bern\nfour,Bern\n")
    ended = run("ingest", table.name, str(file), "--on-error", "quarantine", "--url", server.url)
    assert ended.exit_code == 0, ended.output
    said = " ".join(ended.output.split())
    assert f"1 rows that do not fit are in main.{table.name}_rejected: row 2 of batch 1: column 'id'" in said
    again = run("ingest", table.name, str(file), "--on-error", "quarantine", "-o", "json", "--url", server.url)
    assert (json.loads(again.stdout)["added"], json.loads(again.stdout)["rejected"]) == (1, 1)
    assert version == 1
    assert [(one.rows, one.table, one.problems[0]["place"]) for one in told] == [
        (1, f"{table.name}_rejected", "line 2"),
        (1, f"{table.name}_rejected", "line 2"),
    ]
    with connect(server.url) as lake:
        rejected = lake.table(f"{table.name}_rejected").read(["column", "row"]).to_pylist()
    assert sorted(row["row"] for row in rejected) == [
        *['{"id":"four","city":"Bern"}'] * 2, '{"id":"x"}', '{"id":3,"unknown":1}',
    ]  # fmt: skip
    assert {row["column"] for row in rejected} == {"id", "unknown"}
    refused = run("ingest", table.name, str(file), "--url", server.url)
    assert refused.exit_code != 0
    assert sorted(table.read(["id"])["id"].to_pylist()) == [1, 2, 4, 4]


def test_a_request_that_sets_rows_apart_and_comes_again_tells_their_number_again(table: Table) -> None:
    key = str(uuid4())
    told: list[RejectedRows] = []
    for _ in range(2):
        assert table.append_rows([{"id": 1}, {"id": "x"}], id=key, on_rejected=told.append) == 1
    assert [(one.rows, len(one.problems)) for one in told] == [(1, 1), (1, 0)]


def test_a_batch_that_is_refused_tells_how_many_rows_of_the_file_are_done(
    server: Server, table: Table, tmp_path: Path
) -> None:
    spellings = ["city", "CITY", "City", "cITY", "ciTY", "citY", "CIty", "CITy", "CiTY"]
    lines = ['{"id": 1}'] * 7 + ['{"id": "x"}'] * 2 + [f'{{"id": 2, "{name}": "a"}}' for name in spellings]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(lines))
    given = ("--batch-rows", "9", "--on-error", "quarantine", "--url", server.url)
    ended = run("ingest", table.name, str(file), *given)
    said = " ".join(ended.output.split())
    assert ended.exit_code != 0
    assert "7 rows before these were added, up to version 1, and 2 rejected" in said
    assert "remove the first 9 rows before the file is sent again" in said


def test_an_error_of_the_caller_about_rejected_rows_comes_after_the_commit(table: Table) -> None:
    def fail(_: RejectedRows) -> None:
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError):
        table.append_rows([{"id": 1}, {"id": "x"}], on_rejected=fail)
    rows = table.producer(on_rejected=fail, sequence=1)
    rows.add({"id": 2}, {"id": "x"})
    with pytest.raises(RuntimeError):
        rows.flush()
    assert (rows.version, rows.sequence, rows.flush()) == (2, 2, 2)
    assert sorted(table.read(["id"])["id"].to_pylist()) == [1, 2]

"""Requests of each command, and its answers as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Canned, run, service

ID = "6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1"
TABLE = "/v1/catalogs/main/namespaces/default/tables/t"


def commit(version: int, **more: Any) -> dict[str, Any]:
    return {
        "version": version, "timestamp": 1_770_000_000_000 + version, "name": f"{version:020d}.x.json", "size": 700,
        "modified": 1_770_000_000_000, "kind": "inline", "txn_id": f"txn-{version}", "operation": "WRITE",
        "changed": "append", "published": False, **more,
    }  # fmt: skip


def head(location: str = "s3://lake/t", **more: Any) -> dict[str, Any]:
    return {
        "table_id": ID, "state": "active", "latest": 3, "floor": 1, "timestamp": 1_770_000_000_003, "etag": "e",
        "location": location, "tail": [commit(2), commit(3, kind="staged")], "bytes": 1500,
        "row_id_high_water_mark": 42, **more,
    }  # fmt: skip


def answers(**more: Any) -> dict[str, Any]:
    return {
        f"GET {TABLE}": (200, {"table_id": ID, "name": "main.default.t", "latest": 3}),
        f"GET /v1/tables/{ID}/head": (200, head()),
        **more,
    }


def of_table(path: str, answer: Any) -> dict[str, Any]:
    """The table by its name, and one answer about it."""
    tables = {"tables": [{"name": "t", "table_id": ID, "format": "delta"}]}
    return {
        "GET /v1/catalogs/main/namespaces/default/tables": (200, tables),
        f"GET /v1/tables/{ID}/{path}": (200, answer),
    }


def ask(canned: Canned, *arguments: str) -> Any:
    ended = run(*arguments, "--url", canned.url, "--output", "json")
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.count("\n") == 1, "one object, one line"
    return json.loads(ended.stdout)


def test_tables_reads_every_page() -> None:
    row = {"table_id": ID, "state": "active", "latest": 3, "floor": 1, "location": "s3://lake/t"}
    pages = {
        "GET /v1/tables": (200, {"tables": [{**row, "name": "main.b.t"}], "next_page_token": "x/y"}),
        "GET /v1/tables?page_token=x%2Fy": (200, {"tables": [{**row, "name": "main.a.t"}]}),
    }
    with service(pages) as canned:
        assert [found["name"] for found in ask(canned, "tables")["tables"]] == ["main.a.t", "main.b.t"]
        assert [found["name"] for found in ask(canned, "tables", "main.b")["tables"]] == ["main.b.t"]
        shown = run("tables", "--url", canned.url).stdout
    assert "main.a.t" in shown
    assert "s3://lake/t" in shown


def test_head() -> None:
    with service(answers()) as canned:
        assert ask(canned, "head", "default.t") == {"name": "main.default.t", **head()}
        shown = run("head", "main.default.t", "--url", canned.url).stdout
    assert "2 commits, 1 inline" in shown
    assert "2 to go" in shown


def test_names_are_quoted_and_of_several_levels() -> None:
    path = "/v1/catalogs/c/namespaces/a.b/tables/t%40x"
    with service({**answers(), f"GET {path}": (200, {"table_id": ID})}) as canned:
        assert ask(canned, "head", "c.a.b.t@x")["name"] == "c.a.b.t@x"


def test_the_token_travels() -> None:
    with service(answers()) as canned:
        ask(canned, "head", "default.t", "--token", "secret")
        run("head", "default.t", "--url", canned.url, TURNSTILE_TOKEN="other")
    assert [headers["authorization"] for *_, headers in canned.seen] == ["Bearer secret"] * 2 + ["Bearer other"] * 2


def test_log_goes_on_in_delta_log(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version in (0, 1):
        info = {"inCommitTimestamp": 1_760_000_000_000, "operation": f"OP{version}", "txnId": "t"}
        (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n{}\n")
    told = {**answers(), f"GET /v1/tables/{ID}/head": (200, head(tmp_path.as_uri()))}
    with service(told) as canned:
        found = ask(canned, "log", "default.t")["commits"]
        two = ask(canned, "log", "default.t", "--limit", "2")["commits"]
        shown = run("log", "default.t", "--url", canned.url).stdout
    assert [(c["version"], c["kind"], c["published"], c["operation"]) for c in found] == [
        (3, "staged", False, "WRITE"), (2, "inline", False, "WRITE"), (1, None, True, "OP1"), (0, None, True, "OP0"),
    ]  # fmt: skip
    assert [c["version"] for c in two] == [3, 2]
    assert "waits" in shown
    assert "published" in shown


def test_log_without_access_to_the_files_says_where_they_are() -> None:
    with service(answers()) as canned:
        assert [c["version"] for c in ask(canned, "log", "default.t")["commits"]] == [3, 2]
        assert "s3://lake/t/_delta_log" in run("log", "default.t", "--url", canned.url).stdout


def test_publish() -> None:
    told = {"published": 2, "floor": 3, "latest": 3}
    with service({**answers(), f"POST /v1/tables/{ID}/publish": (200, told)}) as canned:
        assert ask(canned, "publish", "default.t") == {"name": "main.default.t", **told}
        assert "published 2" in run("publish", "default.t", "--url", canned.url).stdout


def stretch(first: int, last: int, *wrong: int, next: int | None = None) -> dict[str, Any]:
    deviations = [
        {"version": v, "kind": "missing", "path": f"_delta_log/{v:020d}.json", "message": "gone"} for v in wrong
    ]
    return {
        "table_id": ID, "floor": 9, "latest": 9, "first": first, "last": last, "deviations": deviations,
        "next_version": next,
        "last_timestamp": 77,
    }  # fmt: skip


def verification(*stretches: dict[str, Any]) -> dict[str, Any]:
    path = f"GET /v1/tables/{ID}/verification"
    queries = ["from_version=0", *(f"from_version={one['next_version']}&after_timestamp=77" for one in stretches)]
    tables = {"tables": [{"name": "t", "table_id": ID, "format": "delta"}]}
    return {
        "GET /v1/catalogs/main/namespaces/default/tables": (200, tables),
        **{f"{path}?{query}": (200, one) for query, one in zip(queries, stretches, strict=False)},
    }


def test_verify_goes_on_until_the_end_and_sums_up() -> None:
    with service(verification(stretch(2, 5, next=6), stretch(6, 9))) as canned:
        answer = ask(canned, "verify", "default.t")
        shown = run("verify", "default.t", "--url", canned.url)
    ends = {"first": 2, "last": 9, "floor": 9, "latest": 9}
    assert answer == {"name": "main.default.t", **ends, "deviations": [], "not_judged": []}
    assert (shown.exit_code, shown.stdout) == (0, "versions 2 to 9 are as they were ratified\n")


def test_verify_shows_every_deviation_and_fails() -> None:
    with service(verification(stretch(2, 5, 3, next=6), stretch(6, 9, 7))) as canned:
        ended = run("verify", "default.t", "--url", canned.url, "-o", "json")
        shown = run("verify", "default.t", "--url", canned.url)
    assert [one["version"] for one in json.loads(ended.stdout)["deviations"]] == [3, 7]
    assert (ended.exit_code, shown.exit_code) == (1, 1)
    assert "00000000000000000007.json" in shown.stdout
    assert "repair main.default.t --dry-run" in shown.stdout


def test_i24_verify_does_not_say_that_a_log_is_sound_of_which_a_file_was_not_judged() -> None:
    part = {**stretch(2, 9), "not_judged": [{"path": "_delta_log/9.checkpoint.parquet", "reason": "it is large"}]}
    with service(verification(part)) as canned:
        ended = run("verify", "default.t", "--url", canned.url, "-o", "json")
        shown = run("verify", "default.t", "--url", canned.url)
    assert json.loads(ended.stdout)["not_judged"] == part["not_judged"]
    assert (ended.exit_code, shown.exit_code) == (6, 6)
    assert "as far as they were judged" in shown.stdout
    assert "not judged: _delta_log/9.checkpoint.parquet: it is large" in shown.stdout


def test_verify_of_a_log_without_versions() -> None:
    nothing = {**stretch(0, 0), "first": None, "last": None, "last_timestamp": None}
    with service(verification(nothing)) as canned:
        assert ask(canned, "verify", "default.t")["last"] is None
        assert "no versions" in run("verify", "default.t", "--url", canned.url).stdout


TABLE_PATH = "/v1/catalogs/main/namespaces/default/tables/t"


def looked(files: int, *missing: str, next: str | None = None, **more: Any) -> tuple[int, dict[str, Any]]:
    told = [
        {"path": path, "kind": "missing", "message": "it is not there", "remedy": "bring it back"} for path in missing
    ]
    return 200, {"table_id": ID, "at": 9, "files": files, "deviations": told, "next": next, "not_judged": [], **more}


def test_i24_verify_with_files_looks_at_all_of_them_and_fails_where_one_is_missing() -> None:
    pages = {
        f"GET {TABLE_PATH}/entry": (200, {"format": "delta"}),
        f"GET {TABLE_PATH}/file-verification": looked(3, "a.parquet", next="9.0.3"),
        f"GET {TABLE_PATH}/file-verification?after=9.0.3": looked(2, "b.parquet", "a.parquet"),
    }
    with service({**verification(stretch(2, 9)), **pages}) as canned:
        ended = run("verify", "default.t", "--files", "--url", canned.url, "-o", "json")
        shown = run("verify", "default.t", "--files", "--url", canned.url)
        alone = run("verify", "default.t", "--url", canned.url, "-o", "json")
    files = json.loads(ended.stdout)["files"]
    assert (files["files"], [each["path"] for each in files["deviations"]]) == (5, ["a.parquet", "b.parquet"])
    assert (ended.exit_code, shown.exit_code, alone.exit_code) == (1, 1, 0)
    assert "versions 2 to 9 are as they were ratified" in shown.stdout and shown.stdout.count("bring it back") == 1
    assert "files" not in json.loads(alone.stdout)


def test_i24_verify_with_files_of_an_iceberg_table_asks_for_no_log() -> None:
    part = {"not_judged": [{"path": "s3://b/x", "reason": "1 files are not below the table's location"}]}
    for answer, exit in ((looked(3), 0), (looked(3, **part), 6)):
        pages = {
            f"GET {TABLE_PATH}/entry": (200, {"format": "iceberg"}),
            f"GET {TABLE_PATH}/file-verification": answer,
        }
        with service(pages) as canned:
            ended = run("verify", "default.t", "--files", "--url", canned.url)
        assert (ended.exit_code, "3 files of 9 are there as the table says" in ended.stdout) == (exit, True)
        assert ("as far as they were judged" in ended.stdout) is (exit == 6)


def test_gc() -> None:
    item = {"kind": "staged", "id": "x", "bytes": 1234, "unreachable_since": 1, "age_ms": 90_000_000}
    told = {"items": [item], "bytes": 1234, "deleted": 0}
    with service({"POST /v1/gc": (200, told)}) as canned:
        assert ask(canned, "gc", "--dry-run", "--kind", "staged", "--kind", "objs") == told
        shown = run("gc", "--dry-run", "--url", canned.url).stdout
        run("gc", "--url", canned.url)
    assert [body for _, _, body, _ in canned.seen] == [
        {"dry_run": True, "kinds": ["staged", "objs"]}, {"dry_run": True}, {"dry_run": False},
    ]  # fmt: skip
    assert "1.2 kB" in shown
    assert "would be deleted" in shown


@pytest.mark.parametrize(("outcome", "exit"), [("ratified", 0), ("never", 0), ("open", 6)])
def test_outcome(outcome: str, exit: int) -> None:
    told = {"outcome": outcome, "latest": 3, **({"version": 2} if outcome == "ratified" else {})}
    with service({**answers(), f"GET /v1/tables/{ID}/outcome?txn_id=a&version=2": (200, told)}) as canned:
        asked = ("outcome", "default.t", "--txn-id", "a", "--version", "2", "--url", canned.url)
        ended = run(*asked, "-o", "json")
        assert ended.exit_code == exit
        assert json.loads(ended.stdout) == {"name": "main.default.t", **told}
        assert run(*asked).exit_code == exit


def test_namespaces() -> None:
    listed = {"namespaces": [{"name": "default", "comment": None, "properties": {}, "created": 1_770_000_000_000}]}
    with service({"GET /v1/catalogs/main/namespaces": (200, listed)}) as canned:
        assert ask(canned, "namespaces") == {"catalog": "main", **listed}
        assert "default" in run("namespaces", "main", "--url", canned.url).stdout


def test_import_and_export() -> None:
    posts = {
        "POST /v1/catalogs/main/namespaces/default/imports": (201, {"name": "main.default.t", "latest": 7}),
        f"POST {TABLE}/export": (200, {"version": 8, "steps": ["publish", "downgrade"]}),
    }
    with service(posts) as canned:
        assert ask(canned, "import", "default.t", "s3://old/t", "--dry-run")["latest"] == 7
        assert ask(canned, "export", "default.t")["version"] == 8
        assert "exported main.default.t" in run("export", "default.t", "--url", canned.url).stdout
    assert [body for _, _, body, _ in canned.seen] == [
        {"name": "t", "location": "s3://old/t", "dry_run": True}, {"dry_run": False}, {"dry_run": False},
    ]  # fmt: skip


def test_status() -> None:
    row = {"table_id": ID, "name": "main.default.t", "state": "active", "latest": 9, "floor": 4, "location": "x"}
    stuck = {**row, "name": "main.default.s", "state": "stuck"}
    release = {"version": "0.9", "since": "2026-11-29"}
    heads = {"tables": [row, stuck], "release": release}
    with service({"GET /v1": (200, {"version": "1"}), "GET /v1/tables": (200, heads)}) as canned:
        told = ask(canned, "status")
        shown = run("status", "--url", canned.url).stdout
    assert (told["version"], told["store_release"]) == ("1", release)
    assert "version 1" in shown and "newest version that swept the store: 0.9, since 2026-11-29" in shown
    assert told["running"] is True
    assert told["commits_unpublished"] == 5
    assert told["tables_stuck"] == ["main.default.s"] and told["tables_recovering"] == []
    assert "5 commits of 1 to publish" in shown


@pytest.mark.parametrize("state", ["stuck", "recovering"])
def test_status_does_not_say_that_everything_is_published_while_a_table_is_stopped(state: str) -> None:
    row = {"table_id": ID, "name": "main.default.s", "state": state, "latest": 9, "floor": 9, "location": "x"}
    with service({"GET /v1": (200, {"version": "1"}), "GET /v1/tables": (200, {"tables": [row]})}) as canned:
        told = ask(canned, "status")
        shown = run("status", "--url", canned.url).stdout
    assert told[f"tables_{state}"] == ["main.default.s"]
    assert f"1 tables; 1 {state}" in shown and "everything is published" not in shown
    assert f"{state} main.default.s" in shown and "turnstile repair main.default.s" in shown


def test_detail_shows_what_files_come_to_and_says_what_is_not_known() -> None:
    answer = {
        "table_id": ID, "name": "main.default.t", "location": "s3://lake/t", "version": 3, "created": 1,
        "delta_id": "d", "description": None,
        "partition_columns": ["day"], "properties": {"delta.appendOnly": "true"}, "min_reader_version": 3,
        "min_writer_version": 7,
        "features": ["catalogManaged"], "files": 4, "bytes": 4096, "rows": 7, "files_without_records": 2,
        "deleted_rows": 1, "partitions": None,
        "index_version": 2, "tail_versions": 1,
    }  # fmt: skip
    with service(of_table("detail?version=3", answer)) as canned:
        assert ask(canned, "detail", "default.t", "--version", "3") == answer
        ended = run("detail", "default.t", "--version", "3", "--url", canned.url)
    assert ended.exit_code == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "rows 7, without those of 2 files that have no statistics" in shown
    assert "partitions more than are counted" in shown
    assert "property delta.appendOnly true" in shown


def test_a_sample_is_a_table_and_says_how_much_of_the_rows_and_columns_it_is() -> None:
    answer = {
        "table_id": ID, "version": 3, "columns": ["id", "[red]name"], "complete": False, "cut": 1,
        "columns_left_out": 2,
        "rows": [
            {"id": 1, "[red]name": "x" * 100},
            {"id": None, "[red]name": ["[bold]"]},
            {"id": "", "[red]name": "\x1b[31mred"},
        ],
    }  # fmt: skip
    with service(of_table("sample?limit=2&version=3", answer)) as canned:
        assert ask(canned, "sample", "default.t", "--version", "3", "--limit", "2") == answer
        ended = run("sample", "default.t", "--version", "3", "--limit", "2", "--url", canned.url)
    assert ended.exit_code == 0, ended.stderr
    shown = " ".join(ended.stdout.split())
    assert "id [red]name" in shown
    assert f"1 {'x' * 59}…" in shown
    assert 'null ["[bold]"]' in shown
    assert '"" \\x1b[31mred' in shown
    assert "rows shown: 3; the table has more" in shown
    assert "values that are not shown whole: 1" in shown
    assert "columns that are not shown: 2" in shown


def test_a_dry_run_of_an_import_is_reported_in_words_and_says_when_it_is_not_possible() -> None:
    path = "POST /v1/catalogs/main/namespaces/sales/imports"
    report = {
        "dry_run": True, "possible": True, "name": "main.sales.t", "location": "s3://b/t", "version": 4,
        "upgrade_version": 5, "read_from": None, "protocol": {}, "protocol_after": {},
        "features_added": ["catalogManaged"],
        "properties_set": {"delta.enableInCommitTimestamps": "true"}, "problems": [], "notes": [],
    }  # fmt: skip
    with service({path: (200, report)}) as canned:
        shown = run("import", "sales.t", "s3://b/t", "--dry-run", "--url", canned.url).stdout
    assert shown.startswith("would import s3://b/t as main.sales.t")
    assert "latest version of its log 4" in shown and "version that brings it under the catalog 5" in shown
    assert not re.search(r"\b[a-z]+_[a-z_]+\b", shown), "no key of the answer"
    problem = {"type": "UnsupportedTable", "message": "the log has a feature", "remedy": "drop it", "field": "location"}
    impossible = report | {"possible": False, "problems": [problem], "upgrade_version": None}
    with service({path: (200, impossible)}) as canned:
        shown = run("import", "sales.t", "s3://b/t", "--dry-run", "--url", canned.url).stdout
    assert shown.startswith("cannot import s3://b/t") and "the log has a feature" in shown and "None" not in shown


def test_a_namespace_alone_is_one_of_main() -> None:
    made = {"name": "foo2", "created": 1}
    with service({"POST /v1/catalogs/main/namespaces": (201, made)}) as canned:
        assert run("create", "namespace", "foo2", "--url", canned.url).exit_code == 0
        assert canned.seen[0][2]["name"] == "foo2"


@pytest.mark.parametrize("command", [("tables",), ("repair", "--all"), ("status",)])
def test_a_caller_that_may_not_list_all_heads_hears_what_to_ask_instead(command: tuple[str, ...]) -> None:
    denied = {"error": {"type": "PermissionDenied", "message": "'ann' is no admin", "remedy": "ask an admin to do it"}}
    with service({"GET /v1/tables": (403, denied), "GET /v1": (200, {"version": "1"})}) as canned:
        ended = run(*command, "--url", canned.url)
    assert "turnstile find /main/*/*" in ended.stderr and "'ann' is no admin" in ended.stderr

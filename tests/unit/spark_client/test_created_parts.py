"""The commits of a transaction that creates a table: version 0 is written in its place, and is no
member of the request (I8)."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

from turnstile_http.api import TableState
from turnstile_spark.delta.log_files import Write
from turnstile_spark.transactions.conflicts.fold import commit_info
from turnstile_spark.transactions.parts import Parts
from turnstile_spark.transactions.scopes.scope import Held, ScopedTable


class Files:
    """What was written, in order: path, content, and how."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []

    def write(self, file: Write) -> None:
        self.written.append(("write", file.path, file.content))

    def rewrite(self, file: Write) -> None:
        self.written.append(("rewrite", file.path, file.content))

    def write_later(self, file: Write) -> Future[None]:
        self.written.append(("later", file.path, file.content))
        return Future()


def commit(ict: int, *actions: dict[str, Any]) -> str:
    info = {"commitInfo": {"inCommitTimestamp": ict, "txnId": f"t{ict}", "operation": "WRITE", "isBlindAppend": True}}
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in (info, *actions))


def add(path: str) -> dict[str, Any]:
    return {"add": {"path": path, "dataChange": True}}


METADATA = {"metaData": {"schemaString": '{"type":"struct","fields":[]}', "partitionColumns": ["day"]}}
PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
ZERO = "file:/lake/new/_delta_log/00000000000000000000.json"


def created(*held: str, ict: int = 5) -> ScopedTable:
    content = commit(ict, PROTOCOL, METADATA, add("a"))
    state = TableState.created_by(content, "main.s.new", "new", "file:/lake/new")
    table = ScopedTable(state, 0, first=Write(None, None, ZERO, content))
    table.held += [Held(None, content) for content in held]  # type: ignore[arg-type]
    return table


def written(ict: int) -> ScopedTable:
    from turnstile_http.api import Commit

    content = commit(ict, add("x"))
    state = TableState.created_by(commit(1, PROTOCOL, METADATA), "main.s.old", "old", "file:/lake/old")
    held = Held(Commit(4, ict, "4.json", len(content), 0, "held", "t", None, None, False), content)
    return ScopedTable(
        state, 3, [held], files=Write(None, None, "file:/lake/old/_delta_log/_staged_commits/4.json", content)
    )


def test_i8_a_created_table_is_described_by_its_version_0() -> None:
    table = created()
    assert (table.state.metadata["schema"], table.state.metadata["partition_columns"]) == (
        {"type": "struct", "fields": []},
        ["day"],
    )
    assert (table.version, table.latest, table.tail.latest, table.tail.commits) == (0, 0, 0, ())
    assert (written(9).version, created(commit(6, add("b"))).latest) == (4, 1)


def test_i8_what_is_held_is_folded_into_version_0_which_is_written_again_in_its_place() -> None:
    files = Files()
    parts = Parts(files, {"new": created(commit(6, add("b")))}, inline_limit=1000)  # type: ignore[arg-type]
    assert (parts.bodies(1000), parts.names, parts.versions) == ([], {}, {"new": 0})
    assert parts.write_later() == {}
    ((how, path, content),) = files.written
    actions = [json.loads(line) for line in content.splitlines()]
    assert (how, path) == ("rewrite", ZERO)
    assert [next(iter(action)) for action in actions] == ["commitInfo", "protocol", "metaData", "add", "add"]
    assert "readVersion" not in actions[0]["commitInfo"] and actions[0]["commitInfo"]["inCommitTimestamp"] == 6


def test_i8_version_0_alone_stays_as_it_was_written() -> None:
    files = Files()
    parts = Parts(files, {"new": created()}, inline_limit=1000)  # type: ignore[arg-type]
    parts.write_later()
    parts.write()
    assert files.written == []


def test_i8_all_commits_have_one_timestamp_also_after_others_were_first() -> None:
    files = Files()
    parts = Parts(files, {"new": created(), "old": written(9)}, inline_limit=1000)  # type: ignore[arg-type]
    assert [body["table_id"] for body in parts.bodies(1000)] == ["old"]
    pending = parts.write_later()
    assert list(pending) == [], "its commit is as it was held"
    assert [(how, commit_info(content)["inCommitTimestamp"]) for how, _, content in files.written] == [("rewrite", 9)]
    del files.written[:]
    assert list(parts.move({"old": (7, commit(20, add("x")))})) == ["old"]
    times = {how: commit_info(content)["inCommitTimestamp"] for how, _, content in files.written}
    assert times == {"rewrite": 20, "later": 20} and parts.versions == {"new": 0, "old": 7}
    del files.written[:]
    parts.write()
    assert [how for how, *_ in files.written] == ["write"], "the server reads version 0: it is not touched again"

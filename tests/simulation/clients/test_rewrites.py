"""Rewrites without an engine between appends, deletes, changes of the definition and other rewrites
(I27): no row is lost, none comes twice, and a deleted one does not come back. The log is in memory;
planning, comparing and proposing are the client's own."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from turnstile_client.core.rewrites import Bin, Changes
from turnstile_client.errors import Conflict, OutcomeUnknown
from turnstile_client.rewriting import Options, _Run
from turnstile_http.errors import ApiError
from turnstile_rows.commits import DataFile
from turnstile_rows.definitions import Definition

SEEDS = range(150)
FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
METADATA = {"protocol": {}, "schema": {"fields": [FIELD]}, "properties": {}, "partition_columns": []}


class Log:
    """A table: its commits, the rows of its files, and the rows that it has to have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.commits: list[str] = []
        self.rows: dict[str, list[int]] = {}
        self.expected: set[int] = set()
        self.rewritten = 0
        self.redefine()

    @property
    def latest(self) -> int:
        return len(self.commits) - 1

    def commit(self, *actions: dict[str, Any]) -> None:
        info = {"commitInfo": {"inCommitTimestamp": 1_000 + 10 * len(self.commits), "txnId": str(len(self.commits))}}
        self.commits.append("".join(json.dumps(action) + "\n" for action in (info, *actions)))

    def files(self) -> dict[str, dict[str, Any]]:
        """The files of the latest version. Fails where a commit removed a file that was not there,
        or one that had changed."""
        files: dict[str, dict[str, Any]] = {}
        for content in self.commits:
            actions = [json.loads(line) for line in content.splitlines()]
            for action in actions:
                if "remove" in action:
                    assert files.pop(action["remove"]["path"], None) is not None, "a file was removed twice"
            files.update({action["add"]["path"]: action["add"] for action in actions if "add" in action})
        return files

    def check(self) -> None:
        found = Counter(row for path in self.files() for row in self.rows[path])
        assert found.keys() == self.expected, (found.keys() ^ self.expected, "lost, or came back")
        assert max(found.values(), default=1) == 1, "a row came twice"

    def file(self, rows: list[int]) -> dict[str, Any]:
        path = f"f{len(self.rows)}"
        self.rows[path] = rows
        return {"path": path, "size": len(rows), "partitionValues": {}, "records": len(rows)}

    # -- other writers --

    def append(self) -> None:
        row = sum(map(len, self.rows.values())) + 1_000 * len(self.commits)
        self.expected |= {row, row + 1}
        self.commit({"add": self.file([row, row + 1])})

    def delete(self) -> None:
        """A file is written anew without its first row."""
        if files := sorted(self.files()):
            path = self.random.choice(files)
            gone, *kept = self.rows[path]
            self.expected.discard(gone)
            self.commit({"remove": {"path": path}}, *([{"add": self.file(kept)}] if kept else []))

    def redefine(self) -> None:
        self.commit({"metaData": {"id": "t"}})

    def others(self, depth: int) -> None:
        """What other writers do while a rewriter waits for an answer."""
        while self.random.random() < 0.35:
            kind = self.random.choices((self.append, self.delete, self.redefine), (6, 3, 1))[0]
            kind()
        if depth < 2 and self.random.random() < 0.1:
            rewrite(self, depth + 1)


class Table:
    """``turnstile_client.steps.TableSteps`` of a log: others write before each answer."""

    name = "default.t"

    def __init__(self, log: Log, depth: int) -> None:
        self.log = log
        self.depth = depth

    def load(self) -> Any:
        self.log.others(self.depth)
        entry = SimpleNamespace(
            timestamp=json.loads(self.log.commits[-1].splitlines()[0])["commitInfo"]["inCommitTimestamp"]
        )
        tail = SimpleNamespace(latest=self.log.latest, commits=(entry,))
        return SimpleNamespace(pinned=False, table_id="t", location="", metadata=METADATA, tail=tail)

    def storage_of(self, *_: Any) -> Any:
        return SimpleNamespace(read_commit=lambda version: self.log.commits[version])

    def plan_files(self, *_: Any) -> tuple[int, Definition, list[dict[str, Any]]]:
        self.log.others(self.depth)
        return self.log.latest, Definition.of_loaded(METADATA), list(self.log.files().values())

    def now_ms(self) -> int:
        return 0  # a clock that is behind all commits

    def body_of(self, _: Any, version: int, content: str) -> dict[str, Any]:
        return {"version": version, "content": content}

    def propose(self, proposal: Any, *_: Any, **__: Any) -> Any:
        log = self.log
        log.others(self.depth)
        if proposal.version == log.latest + 1:
            info = json.loads(proposal.body["content"].splitlines()[0])["commitInfo"]
            before = json.loads(log.commits[-1].splitlines()[0])["commitInfo"]
            assert info["inCommitTimestamp"] > before["inCommitTimestamp"], "the time of commits goes back"
            log.commits.append(proposal.body["content"])
            log.rewritten += 1
            if log.random.random() < 0.05:
                raise OutcomeUnknown("the answer is lost", self.name, proposal.txn_id)
            return {"version": proposal.version}
        shown = log.random.randint(proposal.version, log.latest)  # older ones are in the folder
        winners = [{"version": version, "content": log.commits[version]} for version in range(shown, log.latest + 1)]
        body = {"winners": winners, "published_to": shown - 1}
        raise Conflict("others were faster", log.latest) from ApiError(409, "CommitVersionConflict", "", body)


class Run(_Run):
    """A rewrite that writes no files."""

    def _write(self, definition: Definition, each: Bin) -> Any:
        log = self._table.log  # type: ignore[attr-defined]
        log.others(self._table.depth)  # type: ignore[attr-defined]
        rows = [row for file in each.files for row in log.rows[file["path"]]]
        added = log.file(rows)
        files = [DataFile(added["path"], {}, added["size"], 0, "{}", len(rows))]
        return SimpleNamespace(files=files, discard=lambda: None)


def rewrite(log: Log, depth: int = 0) -> None:
    table: Any = Table(log, depth)
    with contextlib.suppress(OutcomeUnknown):
        Run(table, Options(target_bytes=50, gradual=log.random.random() < 0.5, attempts=3)).run()


def play(seed: int) -> Log:
    log = Log(seed)
    for _ in range(6):
        log.append()
    for _ in range(4):
        rewrite(log)
        log.check()
    return log


def test_i27_rewrites_between_other_writers_keep_every_row_once() -> None:
    rewritten = sum(play(seed).rewritten for seed in SEEDS)
    assert rewritten > 3 * len(SEEDS), "rewrites are committed"


def blind(self: Changes, each: Bin) -> bool:
    return True


def half(self: Changes, each: Bin) -> bool:
    return not self.touched or bool(each.paths - self.touched)


def skipping(_: Any, changes: Changes, conflict: Any) -> bool:
    changes.version = conflict.latest
    return True


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        ("turnstile_client.core.rewrites.Changes.leave", blind),
        ("turnstile_client.core.rewrites.Changes.leave", half),
        ("turnstile_client.rewriting._Run._read_changes", skipping),
    ],
    ids=["no comparison", "a bin of which some files are left", "commits in between are not read"],
)
def test_a_planted_mistake_is_found(place: str, mistake: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, mistake)
    with pytest.raises(AssertionError, match=r"twice|lost|goes back"):
        for seed in SEEDS:
            play(seed)

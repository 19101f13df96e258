"""What ``turnstile ingest`` makes of the answers; with a server: tests/functional/ingest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import run, service

ROUTE = "POST /v1/catalogs/main/namespaces/default/tables/events/rows?on_error=quarantine"
PROBLEM = {"place": "row 2", "problem": "no number"}
REJECTED = {"rows": 1, "problems": [PROBLEM]}
ADDED: dict[str, Any] = {"table_id": "t", "outcome": "added", "version": 7, "rows": 2, "rejected": REJECTED}
REPLAYED = {name: value for name, value in ADDED.items() if name != "rows"} | {"outcome": "replayed"}


LINES = '{"id": 1}\n{"id": "x"}\n{"id": 3}\n'


@pytest.mark.parametrize("rows", [LINES, f"[{','.join(LINES.splitlines())}]"], ids=["lines", "array"])
@pytest.mark.parametrize(("answer", "added", "replayed"), [(ADDED, 2, 0), (REPLAYED, 0, 2)])
def test_every_row_of_a_batch_is_counted_once(
    answer: Any, added: int, replayed: int, rows: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text(rows)
    with service({ROUTE: (200, answer)}) as canned:
        command = ("ingest", "default.events", str(file), "--on-error", "quarantine", "--url", canned.url)
        counts = json.loads(run(*command, "--producer", "p", "-o", "json").stdout)
        shown = run(*command, "--producer", "p").stdout
    assert counts == {"table": "main.default.events", "version": 7, "added": added, "replayed": replayed, "rejected": 1}
    assert "row 2 of batch 1: no number" in shown

"""The summary of a transaction: for each table its versions, statements, files and rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from turnstile_spark.transactions.conflicts.conflict_check import parse
from turnstile_spark.transactions.conflicts.fold import fold
from turnstile_spark.transactions.scopes.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a transaction. ``tables``: by ``namespace.table``, the version that each was
    read at, that it became (None: not written), and the statements, files added and removed, and
    rows in added files (None: not all are counted) of its commit; of one that was only read the
    ``slack``, if one was declared. ``requests``: to the server; ``retries``: how many transactions
    before it lost. ``replays``: how often it moved to a new cut itself, with ``statements_kept``
    and ``statements_run_again``, summed over these.
    """

    id: str
    state: str
    tables: dict[str, dict[str, Any]]
    requests: int
    retries: int
    replays: int = 0
    statements_kept: int = 0
    statements_run_again: int = 0


def summary_of(table: ScopedTable, version: int | None, slack: int) -> dict[str, Any]:
    """The entry of one table in a summary. ``version``: the one that it becomes, None if it does
    not become any; ``slack``: the declared one, if the table was only read."""
    entry: dict[str, Any] = {"read": table.base, "version": None, "statements": len(table.held)}
    if not table.contents:
        if slack:
            entry["slack"] = slack
        return entry
    entry["statements"] = len(table.contents)
    if table.first is not None:
        entry["read"] = None
    actions = parse(fold(table.contents, table.version, ""))
    adds = [a["add"] for a in actions if "add" in a]
    counts = [json.loads(add["stats"]).get("numRecords") if add.get("stats") else None for add in adds]
    entry["version"] = version
    entry["files_added"] = len(adds)
    entry["files_removed"] = sum("remove" in a for a in actions)
    entry["rows_in_added_files"] = None if None in counts else sum(counts)
    return entry

"""The history of a table: the ``commitInfo`` of its newest commits."""

from __future__ import annotations

import json
from typing import Any

from turnstile_client.errors import StorageFailure
from turnstile_client.storage import Storage
from turnstile_http.api import Api

Entry = dict[str, Any]


def history_of(api: Api, table_id: str, storage: Storage, limit: int) -> list[Entry]:
    """The newest ``limit`` commits, the newest first; fewer where the log does not go back so far.
    One request, and one file of each commit. Raises :class:`turnstile_http.errors.ApiError`, and
    :class:`turnstile_client.errors.StorageFailure`.
    """
    tail = api.commits(table_id)  # commits that travelled in requests are files after it
    staged = {commit.version: commit.name for commit in tail.commits if commit.version > tail.floor}
    entries = list[Entry]()
    for version in range(tail.latest, max(-1, tail.latest - limit), -1):
        content = _content(storage, version, staged.get(version))
        if content is None:  # the log's clean-up removed it
            break
        entries.append(_entry(version, content))
    return entries


def _content(storage: Storage, version: int, staged: str | None) -> str | None:
    """The content of a commit; None where it is gone."""
    names = [None] if staged is None else [staged, None]
    for name in names:  # what waited may be published, and removed, meanwhile
        try:
            return storage.read_commit(version, name)
        except StorageFailure as e:
            if not isinstance(e.__cause__, FileNotFoundError):
                raise
    return None


def _entry(version: int, content: str) -> Entry:
    """The ``commitInfo`` of a commit; writers other than the catalog's may put it on any line."""
    info: Entry = {}
    for line in content.split("\n"):
        if '"commitInfo"' in line:
            info = json.loads(line).get("commitInfo") or info
            break
    return {
        "version": version,
        "timestamp": info.get("inCommitTimestamp") or info.get("timestamp"),
        "operation": info.get("operation"),
        "parameters": info.get("operationParameters") or {},
        "metrics": info.get("operationMetrics") or {},
        "engine": info.get("engineInfo"),
        "id": info.get("txnId"),
    }

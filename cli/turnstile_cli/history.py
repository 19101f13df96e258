"""A table's newest commits: what the HEAD carries, and from ``_delta_log`` what it no longer does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_HEAD_BYTES = 65_536
"""commitInfo is the first line of a commit; so much of it is read."""


def newest(head: dict[str, Any], limit: int, home: Path | None) -> list[dict[str, Any]]:
    """The newest ``limit`` commits of a HEAD, newest first, without content; ``home`` is that of a local stack.

    Each has version, timestamp, operation, kind (None where only ``_delta_log`` is left to tell), published.
    """
    carried = {commit["version"]: commit for commit in head["tail"]}
    found: list[dict[str, Any]] = []
    for version in range(head["latest"], max(-1, head["latest"] - limit), -1):
        commit = carried.get(version)
        if commit is None:
            commit = _published(head["location"], version, home)
            if commit is None:
                break
        found.append(
            {
                "version": version,
                "timestamp": commit.get("timestamp"),
                "operation": commit.get("operation"),
                "kind": commit.get("kind"),
                "txn_id": commit.get("txn_id"),
                "size": commit.get("size"),
                "published": bool(commit.get("published")) or version <= head["floor"],
            }
        )
    return found


def _published(location: str, version: int, home: Path | None) -> dict[str, Any] | None:
    """commitInfo of a published version, None if it cannot be read from this machine."""
    name = f"{version:020d}.json"
    parts = urlsplit(location)
    if parts.scheme == "file":
        try:
            with (Path(unquote(parts.path)) / "_delta_log" / name).open("rb") as commit:
                return _commit_info(commit.readline(_HEAD_BYTES))
        except OSError:
            return None
    if parts.scheme in ("s3", "s3a") and home is not None:
        from turnstile_local.objects import first_bytes

        content = first_bytes(home, parts.netloc, f"{unquote(parts.path).strip('/')}/_delta_log/{name}", _HEAD_BYTES)
        return _commit_info(content.split(b"\n", 1)[0]) if content is not None else None
    return None


def _commit_info(line: bytes) -> dict[str, Any]:
    try:
        action = json.loads(line)
    except ValueError:
        return {}
    info = action.get("commitInfo") if isinstance(action, dict) else None
    if not isinstance(info, dict):
        return {}
    return {
        "timestamp": info.get("inCommitTimestamp") or info.get("timestamp"),
        "operation": info.get("operation"),
        "txn_id": info.get("txnId"),
    }

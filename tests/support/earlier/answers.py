"""Versions and identities in the exchanges of commits and transactions."""

from __future__ import annotations

import json
from typing import Any

from tests.support.earlier.exchanges import Exchange


def versions_in(answer: Any) -> list[int]:
    """The versions in the answer to a commit or a transaction."""
    return [one["commit"]["version"] for one in answer.get("commits", [answer])]


def identities_in(one: Exchange) -> list[tuple[str, str, int]]:
    """Table, query of its outcome, and version of each commit of a request."""
    members = one.body.get("commits") or [{**one.body, "table_id": one.path.split("/")[3]}]
    found = []
    for member, version in zip(members, versions_in(one.answer), strict=True):
        if "staged" in member:
            query = f"name={member['staged']['name']}"
        else:
            info = json.loads(member["inline"]["content"].splitlines()[0])["commitInfo"]
            query = f"txn_id={info['txnId']}"
        found.append((member["table_id"], query, version))
    return found

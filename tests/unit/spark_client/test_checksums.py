"""The checksum of a version that a transaction wrote: Delta's of the last commit that it held, with
what folding changes (I8)."""

from __future__ import annotations

import json
from typing import Any

from turnstile_spark.delta.checksums import of_folded

CONTENT = """{"commitInfo":{"txnId":"folded","inCommitTimestamp":500,"operation":"TRANSACTION"}}
{"txn":{"appId":"stream","version":9,"lastUpdated":400}}
{"add":{"path":"a","dataChange":true}}
"""


def checksum(**members: Any) -> dict[str, Any]:
    derived = {"txnId": "held", "inCommitTimestampOpt": 300, "numFiles": 2, "tableSizeBytes": 70} | members
    return json.loads(of_folded(json.dumps(derived), CONTENT, 4))  # type: ignore[no-any-return]


def test_i8_a_folded_checksum_has_the_txn_and_table_size_of_the_commit() -> None:
    """I7: the in-commit timestamp is the commit's."""
    expected = {"txnId": "folded", "inCommitTimestampOpt": 500, "numFiles": 2, "tableSizeBytes": 70}
    assert checksum() == expected


def test_i8_it_has_the_applications_that_the_commit_takes_note_of() -> None:
    """What an application wrote before is replaced; a checksum that does not know applications
    stays without."""
    before = [{"appId": "stream", "version": 8}, {"appId": "other", "version": 1}]
    after = [{"appId": "stream", "version": 9, "lastUpdated": 400}, {"appId": "other", "version": 1}]
    assert checksum(setTransactions=before)["setTransactions"] == after
    assert checksum(setTransactions=[])["setTransactions"] == after[:1]
    assert checksum(setTransactions=None)["setTransactions"] is None
    assert "setTransactions" not in checksum()


def test_i8_files_have_row_versions_of_the_one_commit() -> None:
    files = [
        {"path": "old", "defaultRowCommitVersion": 2},
        {"path": "new", "defaultRowCommitVersion": 6},
        {"path": "untracked"},
    ]
    expected = [files[0], {"path": "new", "defaultRowCommitVersion": 4}, files[2]]
    assert checksum(allFiles=files)["allFiles"] == expected

"""Version checksums, ``<v>.crc``: the numbers of a state.

Source: Delta protocol, "Version Checksum File". All required members are written; of the others all
that the state gives without another pass. Histograms and the list of all files are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Totals(msgspec.Struct):
    """File actions of a state, added up: ``actions`` all of them, with tombstones; ``adds`` files
    of the table, ``size_bytes`` of them; ``vectors`` deletion vectors, that delete ``deleted``
    rows.
    """

    actions: int = 0
    adds: int = 0
    size_bytes: int = 0
    vectors: int = 0
    deleted: int = 0


def checksum_of(
    info: Mapping[str, Any],
    *,
    protocol: dict[str, Any],
    metadata: dict[str, Any],
    transactions: Sequence[dict[str, Any]],
    domains: Sequence[dict[str, Any]],
    totals: Totals,
) -> bytes:
    """Returns the content of the checksum of a version.

    Args:
        info: the version's commitInfo.
    """
    members: dict[str, Any] = {
        "tableSizeBytes": totals.size_bytes,
        "numFiles": totals.adds,
        "numDeletedRecordsOpt": totals.deleted,
        "numDeletionVectorsOpt": totals.vectors,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": list(transactions),
        "domainMetadata": list(domains),
        "metadata": metadata,
        "protocol": protocol,
    }
    if isinstance(info.get("txnId"), str):
        members["txnId"] = info["txnId"]
    enabled = (metadata.get("configuration") or {}).get("delta.enableInCommitTimestamps") == "true"
    if enabled and isinstance(info.get("inCommitTimestamp"), int):
        members["inCommitTimestampOpt"] = info["inCommitTimestamp"]
    return msgspec.json.encode(members) + b"\n"

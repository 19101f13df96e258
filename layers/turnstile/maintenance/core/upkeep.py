"""The settings of a table's checkpoints by its protocol and properties, and the parts of a state
that go into them.

Sources: Delta protocol, "Checkpoints", "Action Reconciliation", "Valid Feature Names in Table
Features"; defaults of properties as Delta's ``DeltaConfigs`` has them, except that statistics as
structs are written only where they are asked for, as the protocol says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.core.features import unknown_features
from turnstile.delta.core.metadata import interval_ms
from turnstile.delta.core.protocols import as_features
from turnstile.store.core.errors import UnsupportedTable

INTERVAL: Final = 10
_WEEK: Final = "interval 1 week"
_MONTH: Final = "interval 30 days"
_INDEXED: Final = 32
_CODECS: Final = {"uncompressed": "NONE", "none": "NONE", "snappy": "SNAPPY", "gzip": "GZIP", "zstd": "ZSTD"}
_CODEC: Final = "ZSTD"


class Upkeep(msgspec.Struct, frozen=True):
    """The settings.

    Attributes:
        interval: versions from one checkpoint to the next.
        v2: whether checkpoints follow the V2 spec, with sidecars.
        stats_as_json, stats_as_struct: the forms that statistics are written in.
        indexed: how many columns have statistics; -1: all.
        indexed_names: their names, if they are named.
        tombstones_ms: for how long a removed file stays in a checkpoint; None: for ever.
        transactions_ms: for how long a transaction's application does; None: for ever.
        log_ms: for how long commits are kept; None: for ever.
        codec: how Parquet is compressed.
    """

    interval: int
    v2: bool
    stats_as_json: bool
    stats_as_struct: bool
    indexed: int
    indexed_names: tuple[str, ...] | None
    tombstones_ms: int | None
    transactions_ms: int | None
    log_ms: int | None
    codec: str

    def keeps_tombstone(self, deleted_ms: int | None, now_ms: int) -> bool:
        """Whether a tombstone from ``deleted_ms`` (None: unknown) is not expired yet."""
        return self.tombstones_ms is None or (deleted_ms or 0) > now_ms - self.tombstones_ms

    def keeps_transaction(self, txn: Mapping[str, Any], now_ms: int) -> bool:
        """Whether a ``txn`` action is not expired yet; one that has no time is, as soon as there is
        a limit."""
        if self.transactions_ms is None:
            return True
        updated_ms = txn.get("lastUpdated")
        return isinstance(updated_ms, int) and updated_ms > now_ms - self.transactions_ms


def upkeep_of(protocol: dict[str, Any], metadata: dict[str, Any]) -> Upkeep:
    """Returns the settings of a table. A property that cannot be read counts as its default, one
    about time as "for ever".

    Raises:
        UnsupportedTable: the table has an unknown feature, so its state may have more than is
            written here.
    """
    unknown = unknown_features(protocol)
    for_writers = as_features(protocol)[1]
    if unknown:
        raise UnsupportedTable(
            f"the table has the feature {unknown[0]}, which is not known here",
            field="protocol",
            remedy="let an engine that knows it write the table's checkpoints",
        )
    properties = {str(name): str(value) for name, value in (metadata.get("configuration") or {}).items()}
    asked_v2 = properties.get("delta.checkpointPolicy", "classic").lower() == "v2"
    named = properties.get("delta.dataSkippingStatsColumns")
    keep = properties.get("delta.setTransactionRetentionDuration")
    return Upkeep(
        interval=_number(properties.get("delta.checkpointInterval"), INTERVAL, least=1),
        v2=asked_v2 and "v2Checkpoint" in for_writers,
        stats_as_json=properties.get("delta.checkpoint.writeStatsAsJson", "true").lower() != "false",
        stats_as_struct=properties.get("delta.checkpoint.writeStatsAsStruct", "false").lower() == "true",
        indexed=_number(properties.get("delta.dataSkippingNumIndexedCols"), _INDEXED, least=-1),
        indexed_names=None if named is None else tuple(name.strip().replace("`", "") for name in named.split(",")),
        tombstones_ms=interval_ms(properties.get("delta.deletedFileRetentionDuration", _WEEK)),
        transactions_ms=None if keep is None else interval_ms(keep),
        log_ms=interval_ms(properties.get("delta.logRetentionDuration", _MONTH)),
        codec=_CODECS.get(properties.get("delta.parquet.compression.codec", "").lower(), _CODEC),
    )


def _number(text: str | None, default: int, *, least: int) -> int:
    try:
        number = default if text is None else int(text)
    except ValueError:
        return default
    return number if number >= least else default

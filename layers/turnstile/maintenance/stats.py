"""Statistics of files as JSON, from whichever form a checkpoint has them in.

Source: Delta protocol, "Per-file Statistics", "Checkpoints" (``stats`` and ``stats_parsed``).
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def stats_as_json(adds: pa.StructArray) -> pa.StringArray:
    """Returns the statistics of each file of ``adds`` as JSON; null for a file without."""
    import pyarrow as pa

    if adds.type.get_field_index("stats") >= 0:
        return adds.field("stats").cast(pa.string())
    if adds.type.get_field_index("stats_parsed") < 0:
        return pa.nulls(len(adds), pa.string())
    structs = adds.field("stats_parsed").to_pylist()
    return pa.array([None if struct is None else json_of(struct) for struct in structs], pa.string())


def json_of(struct: dict[str, Any]) -> str:
    """Returns statistics as JSON text, without members that are null."""
    return _ENCODER.encode(_plain(struct)).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items() if member is not None}
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return value.replace(tzinfo=None).isoformat(timespec="microseconds").rstrip("0").rstrip(".") + zone
    return value.isoformat() if isinstance(value, date) else value

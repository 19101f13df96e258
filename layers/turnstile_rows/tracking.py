"""Row ids of tables that track rows, where rows are put into other files.

A row has the id ``baseRowId`` of its file plus its position, and the file's
``defaultRowCommitVersion``, unless the file has values of its own in two columns that the schema
does not list. A rewrite writes these columns, so that each row keeps both. Source: Delta protocol,
"Row Tracking", "Reader Requirements for Row Tracking", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from turnstile_rows.definitions import Definition
from turnstile_rows.errors import Unsupported
from turnstile_rows.statistics import indexed_columns

_IDS: Final = "delta.rowTracking.materializedRowIdColumnName"
_VERSIONS: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"
_INDEXED: Final = "delta.dataSkippingNumIndexedCols"


@dataclass(frozen=True)
class RowTracking:
    """The columns of files with row ids (``ids``) and row commit versions (``versions``)."""

    ids: str
    versions: str

    def column(self, name: str, file: Mapping[str, Any], stored: pa.Array | None, positions: pa.Array) -> pa.Array:
        """Returns the values of one of the two columns for rows of a file. ``stored``: the values
        in the file, None where it has no such column. Raises :class:`Unsupported` for a file
        without ids."""
        if file.get("baseRowId") is None or file.get("defaultRowCommitVersion") is None:
            raise Unsupported(f"the file {str(file['path'])[:200]!r} has no row ids, and the table tracks rows")
        if name == self.ids:
            computed = pc.add(positions, pa.scalar(int(file["baseRowId"]), pa.int64()))
        else:
            computed = pa.repeat(pa.scalar(int(file["defaultRowCommitVersion"]), pa.int64()), len(positions))
        return computed if stored is None else pc.coalesce(stored.cast(pa.int64()), computed)


def assigns_row_ids(definition: Definition) -> bool:
    """Whether each new file needs row ids."""
    return definition.is_row_tracked and not definition.is_set("delta.rowTrackingSuspended")


def row_tracking(definition: Definition) -> RowTracking | None:
    """Returns the columns in which a rewrite keeps row ids; None where the table keeps none. Raises
    :class:`Unsupported` where the table does not name them."""
    if not definition.is_set("delta.enableRowTracking"):
        return None
    names = [definition.properties.get(name) for name in (_IDS, _VERSIONS)]
    if not all(names):
        raise Unsupported(f"the table tracks rows, and has no property {_IDS} or {_VERSIONS}")
    return RowTracking(str(names[0]), str(names[1]))


def with_row_ids(definition: Definition, tracking: RowTracking) -> Definition:
    """Returns the definition of files that have the two columns after those of the table. They have
    no statistics."""
    columns = tuple(
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": name, "delta.columnMapping.id": None},
        }
        for name in (tracking.ids, tracking.versions)
    )
    properties = {**definition.properties, _INDEXED: str(len(indexed_columns(definition)))}
    return replace(definition, fields=(*definition.fields, *columns), properties=properties)

"""The metadata of a new table, from what a create request says."""

from __future__ import annotations

import msgspec

from turnstile.iceberg.core.draft import DEFAULT_FORMAT
from turnstile.iceberg.core.metadata import NEWEST, TableMetadata
from turnstile.iceberg.core.partition import (
    FIRST_PARTITION_ID,
    UNSORTED,
    PartitionField,
    PartitionSpec,
    SortField,
    SortOrder,
    check_order,
    check_spec,
)
from turnstile.iceberg.core.schema import Schema, check, highest_id, renumbered
from turnstile.store.core.errors import InvalidRequest

FORMAT_VERSION = "format-version"
"""The property that chooses the format; it is not stored with the others."""


def new_table(
    *,
    uuid: str,
    location: str,
    schema: Schema,
    spec: PartitionSpec | None,
    order: SortOrder | None,
    properties: dict[str, str],
    now: int,
) -> TableMetadata:
    """The metadata of a table that nobody has written to.

    Ids of fields are given out here, from 1 for columns and from 1000 for partition fields, whatever the request says.

    Raises:
        InvalidRequest: the schema is none, or cannot be partitioned or sorted so.
    """
    version = _version(properties)
    check(schema, version)
    columns, fresh = renumbered(schema, 0)

    def source(field: PartitionField | SortField, where: str) -> int:
        """The new id of a field's column, which a table that has no past cannot have lost."""
        if field.source_id not in fresh:
            raise InvalidRequest(f"source column {field.source_id} is not in the schema", field=where)
        return fresh[field.source_id]

    fields = tuple(
        msgspec.structs.replace(field, source_id=source(field, "spec"), field_id=FIRST_PARTITION_ID + position)
        for position, field in enumerate(spec.fields if spec else ())
    )
    made = PartitionSpec(fields, 0)
    check_spec(made, columns, version)
    keys = tuple(
        msgspec.structs.replace(field, source_id=source(field, "sort-order"))
        for field in (order.fields if order else ())
    )
    sorting = SortOrder(keys, 1 if keys else UNSORTED)
    check_order(sorting, columns)
    return TableMetadata(
        format_version=version,
        table_uuid=uuid,
        location=location,
        last_updated_ms=now,
        last_column_id=highest_id(columns),
        schemas=(columns,),
        current_schema_id=0,
        partition_specs=(made,),
        default_spec_id=0,
        last_partition_id=FIRST_PARTITION_ID + len(fields) - 1,
        sort_orders=(sorting,),
        default_sort_order_id=sorting.order_id,
        properties={name: value for name, value in properties.items() if name != FORMAT_VERSION},
    )


def _version(properties: dict[str, str]) -> int:
    given = properties.get(FORMAT_VERSION, str(DEFAULT_FORMAT))
    if given not in {str(version) for version in range(1, NEWEST + 1)}:
        raise InvalidRequest(f"format version {given[:20]!r} is not served", field=f"properties.{FORMAT_VERSION}")
    return int(given)

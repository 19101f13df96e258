"""Expectations of Iceberg tables are validated when they are set: properties of the table.
``source`` has the table for their checks."""

from __future__ import annotations

from turnstile.delta.core.content import expectations_among
from turnstile.iceberg.core.metadata import TableMetadata


def check_expectations(metadata: TableMetadata, before: TableMetadata | None = None) -> None:
    """Raises InvalidRequest for a property of a table that is meant to be an expectation and is
    none, or does not fit the schema, unless all of them are as ``before``."""
    given = expectations_among(metadata.properties)
    if given and (before is None or given != expectations_among(before.properties)):
        from turnstile.expectations.core.validity import check_of_iceberg_table
        from turnstile.iceberg.core.files.file_ranges import current_columns

        check_of_iceberg_table(given, current_columns(metadata).table)

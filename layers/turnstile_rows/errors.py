"""Errors about rows and tables, which the server and the Python client share."""

from __future__ import annotations


class TableError(Exception):
    """An operation on a table that is refused, or whose outcome is not known."""


class Unsupported(TableError):
    """The table, or a property of it, needs something that is done by engines such as Spark
    alone."""


class DataMismatch(TableError, ValueError):
    """The data, a filter or a schema does not fit the table. The message names the column."""

"""Iceberg's REST catalog API (``/iceberg/v1``)."""

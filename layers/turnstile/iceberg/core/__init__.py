"""Pure: the metadata of tables and views, updates and requirements, as Iceberg's Java library has
them.

Source: Iceberg's REST catalog specification, table specification versions 1 to 3, view
specification version 1; where these leave something open, Iceberg's Java implementation.
"""

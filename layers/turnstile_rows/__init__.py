"""Rows as the files of a Delta table: definitions and schemas, rows in a table's types, partition
values, statistics, the content of commits. Pure, with pyarrow: the server and the Python client
share it."""

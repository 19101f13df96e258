"""Upkeep of Delta tables: the versions that have to stay (``pins``), for vacuum, clean-up of logs,
purge, and engines with their own upkeep."""

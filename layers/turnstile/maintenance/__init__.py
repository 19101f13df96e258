"""Upkeep of Delta tables: what has to stay (``pins``), for vacuum, clean-up of logs, purge, and engines that do it themselves."""

"""The two tables in one SQLite file: the store of a server on one machine.

``file``         the file: its format, connections, the lock between processes, the meaning of its
errors ``database``     reads, write groups with one fsync each, the change feed ``checkpoints``
pages move from the WAL into the database beside the writers ``refs``         the mutable table:
conditional writes, evaluated by ``store.core.evaluate`` ``objs``         rows of the write-once
table; ``store.stored_objs`` makes objs of them
"""

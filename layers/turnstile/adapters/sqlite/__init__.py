"""The two tables in one SQLite file: the store of a server on one machine.

``database``  the file: connections, write groups with one fsync each, the change feed
``refs``      the mutable table: conditional writes, evaluated by ``store.core.evaluate``
``objs``      rows of the write-once table; ``store.stored_objs`` makes objs of them
"""

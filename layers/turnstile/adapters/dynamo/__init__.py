"""The two tables on DynamoDB.

``models``  what is stored, as PynamoDB models: names and types, and the only serialisation
``calls``   sends requests: each counted, each fault classified, retried within a deadline
``refs``    the mutable table; conditional writes (``store.core.writes``) as expressions
``objs``    rows of the write-once table; ``store.stored_objs`` makes objs of them
"""

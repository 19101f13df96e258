"""The two tables on DynamoDB.

``models``  what is stored, as PynamoDB models: names and types, and the only serialisation there is
``render``  plans (``core/plan.py``) as expressions
``calls``   sending: every request counted, every fault classified
``refs``    the mutable table: the one place that sends conditional writes
``objs``    rows of the write-once table; ``adapters.stored_objs`` makes objs of them
"""

"""Implementations of the ports (``store/ports.py``), and the worlds built from them.

``opening``      opens a world; clock, ids, AWS clients, storage by location
``dynamo``       refs and objs on DynamoDB
``sqlite``       refs and objs in one SQLite file
``s3``, ``files``  log storage
``credentials``  storage credentials for clients
"""

from __future__ import annotations

from turnstile.adapters.opening import FileStorages, RandomIds, SystemClock, open_world

__all__ = ["FileStorages", "RandomIds", "SystemClock", "open_world"]

"""Implementations of the ports (``store/ports.py``): refs and objs in ``dynamo`` and ``sqlite``,
log storage in ``s3`` and ``files``, ``credentials`` for clients, and ``opening``, which builds
worlds from them.
"""

from __future__ import annotations

from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages, open_world

__all__ = ["FileStorages", "RandomIds", "SystemClock", "open_world"]

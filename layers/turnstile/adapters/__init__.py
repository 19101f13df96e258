"""Implementations of the ports on AWS (and on whatever speaks the same API), and the world built from them."""

from __future__ import annotations

from turnstile.adapters.clock import SystemClock
from turnstile.adapters.ids import RandomIds
from turnstile.adapters.opening import open_world
from turnstile.adapters.storages import FileStorages

__all__ = ["FileStorages", "RandomIds", "SystemClock", "open_world"]

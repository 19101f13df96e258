"""Implementations of the ports on AWS (and on whatever speaks the same API), and the world built from them."""

from __future__ import annotations

from turnstile.adapters.opening import FileStorages, open_world
from turnstile.adapters.system import RandomIds, SystemClock

__all__ = ["FileStorages", "RandomIds", "SystemClock", "open_world"]

"""Which lake a catalog name means in which JVM.

Delta lets a commit coordinator be registered once per JVM and catalog name, and never unregistered. So what is
registered is a :class:`Route`, made once, that passes every call on to the lake attached under that name now.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstile_spark.lake import Lake

_lock = threading.Lock()
_lakes: dict[tuple[int, str], Lake] = {}
_routes: dict[tuple[int, str], Any] = {}


def key(gateway: Any, name: str) -> tuple[int, str]:
    """A name in a JVM. The port is the JVM's identity: a new JVM of this process gets a new gateway."""
    return int(gateway.gateway_parameters.port), name


def current(gateway: Any, name: str) -> Lake | None:
    """The lake attached under this name, if any."""
    return _lakes.get(key(gateway, name))


def put(gateway: Any, name: str, lake: Lake) -> Lake | None:
    """Attaches; returns the lake that had the name before."""
    with _lock:
        before = _lakes.get(key(gateway, name))
        _lakes[key(gateway, name)] = lake
        return before


def remove(gateway: Any, name: str, lake: Lake) -> None:
    """Detaches, if the name still means this lake."""
    with _lock:
        if _lakes.get(key(gateway, name)) is lake:
            del _lakes[key(gateway, name)]


def route_once(gateway: Any, name: str, register: Any) -> None:
    """Calls ``register()`` the first time a name is used in a JVM, and keeps what it returns alive."""
    with _lock:
        if key(gateway, name) not in _routes:
            _routes[key(gateway, name)] = register()

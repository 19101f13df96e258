"""Delta's snapshots that the scopes of a lake share: one for each table and version.

A scope has logs of its own (:mod:`turnstile_spark.transactions.scopes.scope`), so Delta would
compute the state of a table again in each of them: it reads the checkpoint and the commits, and
caches the actions of the files. The state of a version never changes. So the second scope that
reads a version shares its snapshot, and the later ones put that into their logs; a version that one
scope reads costs nothing more. A log uncaches the snapshot that it replaces, which a shared one
ignores (``java/SharedSnapshot.java``).

A shared snapshot keeps the log of the scope that made it, with the option of that scope: a first
commit on it arrives with that option
(:attr:`turnstile_spark.transactions.scopes.scope.ScopedTable.origin`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turnstile_http.http import now_ms
from turnstile_spark.java_classes import java_object
from turnstile_spark.jvm import JavaObject, Jvm

SHARED_MOST: Final = 32
#: Younger than what gc leaves of published commits' staged files, which a snapshot may name.
AGE_MOST_MS: Final = 600_000


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """A snapshot that scopes share. ``origin``: the scope's option in its log; ``made_ms``: when it
    was made."""

    snapshot: JavaObject
    origin: str
    made_ms: int


class SharedSnapshots:
    """The shared snapshots of one lake, by table id and version. Thread-safe."""

    def __init__(self, jvm: Jvm, clock: Callable[[], int] = now_ms) -> None:
        self._jvm = jvm
        self._clock = clock
        self._shared: OrderedDict[tuple[str, int], SharedSnapshot] = OrderedDict()
        self._read: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, table_id: str, snapshot: JavaObject, origin: str) -> SharedSnapshot | None:
        """Returns the shared snapshot of the version that ``snapshot`` is of, which a scope with
        the option ``origin`` has just read. Returns None for the first read of a version.
        """
        key = table_id, int(snapshot.version())
        with self._lock:
            self._release_old()
            if (shared := self._shared.get(key)) is not None:
                self._shared.move_to_end(key)
                return shared
            if key not in self._read:
                self._read[key] = None
                if len(self._read) > SHARED_MOST:
                    self._read.popitem(last=False)
                return None
            shared = SharedSnapshot(java_object(self._jvm, "SharedSnapshot", snapshot), origin, self._clock())
            self._shared[key] = shared
            if len(self._shared) > SHARED_MOST:
                self._shared.popitem(last=False)[1].snapshot.release()
            return shared

    def close(self) -> None:
        """Releases all snapshots. Idempotent."""
        with self._lock:
            while self._shared:
                self._shared.popitem()[1].snapshot.release()

    def _release_old(self) -> None:
        now = self._clock()
        for key in [key for key, shared in self._shared.items() if not 0 <= now - shared.made_ms < AGE_MOST_MS]:
            self._shared.pop(key).snapshot.release()

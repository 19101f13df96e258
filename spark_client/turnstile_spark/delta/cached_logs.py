"""Delta's own cached logs: telling Delta that the snapshot it holds is the table's current one.

Delta keeps a ``DeltaLog`` for each table, with a snapshot and the time of its last update. For a
table that was just loaded it updates the snapshot, unless it was updated since: it lists
``_delta_log`` and asks for the ratified commits. The server's answer to the load has already said
which version is the latest, at a moment after the statement began. If that is the snapshot's
version, there is nothing to list, and the snapshot's time of update is set to the present.

Not at the first load of a table: Delta's logs are kept by path, where another table may have been
before, with a version of the same number. Delta finds that out when it lists.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from turnstile_http.http import now_ms
from turnstile_spark.jvm import JavaObject

_KEPT = 64


@dataclass(frozen=True, slots=True)
class _Log:
    """A ``DeltaLog`` and its lock. Handles that are held: fetching one costs a round trip to the
    JVM."""

    delta_log: JavaObject
    lock: JavaObject


class DeltaLogs:
    """The ``DeltaLog`` of each table that was loaded lately, by table id. Thread-safe."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, _Log] = OrderedDict()

    def of(self, table_id: str) -> JavaObject | None:
        """The ``DeltaLog`` that the last load of this table used; None when it was not loaded
        lately."""
        log = self._logs.get(table_id)
        return log.delta_log if log else None

    def note_load(self, table_id: str, table: JavaObject, latest: int) -> None:
        """Takes note of a load: ``table`` is Delta's ``DeltaTableV2``, ``latest`` the version that
        the server named. A log that cannot be read is left to Delta, which reports it when it needs
        it.
        """
        try:
            delta_log = table.deltaLog()
        except Exception:
            return
        log = _Log(delta_log, delta_log.snapshotLock())
        first = self._logs.pop(table_id, None) is None
        self._logs[table_id] = log
        if len(self._logs) > _KEPT:
            self._logs.popitem(last=False)
        if not first:
            _confirm(log, latest)


def _confirm(log: _Log, latest: int) -> None:
    """Sets the time of the snapshot's last update to now if it is of version ``latest``.

    Under Delta's lock, for another thread may be installing a newer snapshot; Delta updates as
    usual while it does. The callback runs on the JVM thread of the statement, so it is that thread
    which holds the lock.
    """
    if not log.lock.tryLock():
        return
    try:
        snapshot = log.delta_log.unsafeVolatileSnapshot()
        if snapshot is not None and snapshot.version() == latest:
            log.delta_log.installSnapshot(snapshot, now_ms())
    finally:
        log.lock.unlock()

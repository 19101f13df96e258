"""Delta's logs of the tables in a scope: kept at the cut, and dropped when the scope ends.

Delta lists ``_delta_log`` whenever it updates a snapshot, and prefers published files to the
coordinator's answer. In a scope, versions after the cut are other writers' and none of its own. So
a scope's ``DeltaLog`` gets a log store that ends its listings at the cut (:class:`CutLogStore`), in
the place of its own, which does everything else.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from turnstile_http.http import now_ms
from turnstile_spark.jvm import JavaObject, Jvm, Proxy, throw
from turnstile_spark.transactions.scopes.scope import OPTION, Scope, ScopedTable
from turnstile_spark.transactions.scopes.shared_snapshots import SharedSnapshots

_DELTA = "org.apache.spark.sql.delta."
#: Files of a log whose names begin with a version: commits, compacted commits, checkpoints,
#: checksums.
_VERSIONED = re.compile(r"(\d{20})(?:\.(\d{20})\.compacted)?\.")


def is_after(name: str, base: int) -> bool:
    """Whether a file of a log, by its name, says something of versions after ``base``."""
    match = _VERSIONED.match(name)
    return match is not None and int(match.group(2) or match.group(1)) > base


def prepare(jvm: Jvm, table: JavaObject, scope: Scope, scoped: ScopedTable, shared: SharedSnapshots) -> None:
    """Makes the log of ``table``, Delta's ``DeltaTableV2``, which was just loaded in ``scope``,
    show the scope's state: the version in the cut, and the held commits. Takes the version in the
    cut from ``shared`` if other scopes read it. Raises Delta's errors when it cannot read it.
    """
    delta_log = table.deltaLog()
    base = scoped.base
    lock = delta_log.snapshotLock()
    lock.lock()
    try:
        snapshot = delta_log.unsafeVolatileSnapshot()
        if _cut(jvm, delta_log, base):
            scope.took_log(scoped, delta_log)
            if snapshot.version() > base:  # what Delta read for a new log are other writers' versions
                none = jvm.module("scala.None")
                at_cut = delta_log.getSnapshotAt(base, none, table.catalogTable(), False)
                snapshot = delta_log.installSnapshot(at_cut, now_ms())
            if scoped.first is None and snapshot.version() == base:
                snapshot = _share(delta_log, snapshot, scope, scoped, shared)
        if snapshot.version() == scoped.latest:  # nobody else changes it: there is nothing to list
            delta_log.installSnapshot(snapshot, now_ms())
    finally:
        lock.unlock()


def _share(
    delta_log: JavaObject, snapshot: JavaObject, scope: Scope, scoped: ScopedTable, shared: SharedSnapshots
) -> JavaObject:
    """Puts the shared snapshot of the version in the cut into a new log of a scope, if there is
    one; returns the log's snapshot."""
    found = shared.of(scoped.state.table_id, snapshot, scope.options[OPTION])
    if found is None:
        return snapshot
    scoped.origin = found.origin
    return delta_log.installSnapshot(found.snapshot, now_ms())


def number_of(delta_log: JavaObject, application: str) -> int:
    """The version of this application in the newest snapshot of a log; -1 when there is none."""
    version = delta_log.unsafeVolatileSnapshot().transactions().get(application)
    return int(version.get()) if version.isDefined() else -1


def _cut(jvm: Jvm, delta_log: JavaObject, base: int) -> bool:
    """Ends the listings of a log at ``base``; False when they are already."""
    store = delta_log.store()
    if str(store.toString()) == CutLogStore.NAME:
        return False
    field = jvm.class_for_name(_DELTA + "DeltaLog").getDeclaredField("store")
    field.setAccessible(True)
    field.set(delta_log, CutLogStore(jvm, store, base))
    return True


def drop(jvm: Jvm, session: JavaObject, scope: Scope) -> None:
    """Removes the logs of a scope from Delta's cache. All other logs stay."""
    if logs := scope.give_logs():
        cache = jvm.module(_DELTA + "DeltaLog").getOrCreateCache(session.sessionState().conf())
        for delta_log in logs:
            cache.invalidate(jvm.new(_DELTA + "DeltaLog$DeltaLogCacheKey", delta_log.logPath(), delta_log.options()))


def forget(jvm: Jvm, session: JavaObject, location: str) -> None:
    """Takes all logs of the table at ``location`` out of Delta's cache: its version 0 was written
    again."""
    path = jvm.new("org.apache.hadoop.fs.Path", location)
    jvm.module(_DELTA + "DeltaLog").invalidateCache(session, path)


class CutLogStore(Proxy):
    """Delta's ``LogStore`` for one log of a scope: ``store``, without the files of versions after
    ``base``."""

    NAME: ClassVar = "turnstile_spark.CutLogStore"

    def __init__(self, jvm: Jvm, store: JavaObject, base: int) -> None:
        self.jvm = jvm
        self._store = store
        self._base = base

    def __repr__(self) -> str:
        return self.NAME

    def listFrom(self, path: Any, *conf: Any) -> JavaObject:
        listed = self._store.listFrom(path, *conf)
        kept = self.jvm.new("java.util.ArrayList")
        while listed.hasNext():
            file = listed.next()
            if not is_after(str(file.getPath().getName()), self._base):
                kept.add(file)
        return self.jvm.module("scala.jdk.javaapi.CollectionConverters").asScala(kept.iterator())

    def read(self, file: Any, *conf: Any) -> JavaObject:
        self._refuse_checksum(file)
        return self._store.read(file, *conf)

    def readAsIterator(self, file: Any, *conf: Any) -> JavaObject:
        return self._store.readAsIterator(file, *conf)

    def _refuse_checksum(self, file: Any) -> None:
        """Throws where the checksum is of another writer's version: Delta looks for one by path,
        and does without."""
        name = str(file if isinstance(file, str) else file.toString()).rpartition("/")[2]
        if name.endswith(".crc") and is_after(name, self._base):
            raise throw(self.jvm.new("java.io.FileNotFoundException", name))

    def write(self, path: Any, actions: JavaObject, *more: Any) -> None:
        if len(more) == 2:
            self._store.write(path, actions, more[0], more[1])
        elif more:
            self._store.write(path, actions, more[0])
        else:
            self._store.write(path, actions)

    def invalidateCache(self) -> None:
        self._store.invalidateCache()

    def resolvePathOnPhysicalStorage(self, path: JavaObject, *conf: Any) -> JavaObject:
        return self._store.resolvePathOnPhysicalStorage(path, *conf)

    def isPartialWriteVisible(self, path: JavaObject, *conf: Any) -> bool:
        return bool(self._store.isPartialWriteVisible(path, *conf))

    class Java:
        implements: ClassVar = [_DELTA + "storage.LogStore"]


#: Scala's name for the default of the third argument of ``write``.
setattr(CutLogStore, "write$default$3", lambda self: False)

"""Putting a lake's catalog into Spark sessions, and keeping it there.

Spark finds catalogs in the session's ``CatalogManager``, which makes them from class names in the
configuration. A Python object has none, so it is put straight into the manager's map. Three kinds
of session start with an empty map:

* ``spark.newSession()``: the method is replaced, on the session object, by one that puts the
  catalogs in;
* sessions that Spark clones for a streaming query (also the ones ``foreachBatch`` works in): a
  listener is called
  synchronously, on the query's thread and before it is planned, and puts the catalogs in there;
* anything else that clones sessions in the JVM: not covered. ``CACHE TABLE`` does, unless the two
  options are set
  with which :func:`turnstile_spark.session` keeps it from cloning.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from turnstile_spark.catalogs.lake_catalog import SparkCatalog, catalogs_of
from turnstile_spark.command_planning import CommandPlanning
from turnstile_spark.context import LakeContext
from turnstile_spark.jvm import JavaObject, Proxy
from turnstile_spark.lake_commands import LakeCommands
from turnstile_spark.transactions.scopes.scope import STREAM, catalog_of

log = logging.getLogger("turnstile_spark")
_CONF = "spark.sql.catalog."
#: Delta's streaming source reads catalog-managed tables only of a catalog declared with this class.
#: The class is never loaded (and need not exist): the catalog of that name is in the map already.
_UNITY = "io.unitycatalog.spark.UCSingleCatalog"
#: Set in every session with a lake, unless the user has set it.
DEFAULTS = {
    # Delta holds a lock per table around commit() on file systems without atomic rename; the server
    # decides, not a lock.
    "spark.databricks.delta.commitLock.enabled": "false",
    # Default 10,000,000: a writer that always loses would never fail.
    "spark.databricks.delta.maxCommitAttempts": "20",
    # The marks that the streaming source needs also switch on a report to Unity Catalog after every
    # commit.
    "spark.databricks.delta.uc.commitMetrics.enabled": "false",
}


class SessionCatalogs:
    """The catalogs of one lake in the sessions that it is in. ``token`` is for Delta's streaming
    source."""

    def __init__(self, lake: LakeContext, token: str | None) -> None:
        self.lake = lake
        self.jvm = lake.jvm
        self._token = token
        self._planning = CommandPlanning(self.jvm, lake.name, LakeCommands(lake, self.python_session))
        self._joined: list[tuple[JavaObject, JavaObject]] = []  # JVM session, its streaming listener
        self._python: list[Any] = []

    def join(self, spark: Any) -> None:
        """Puts the lake into a PySpark session, into its future streams, and into sessions made
        from it."""
        session = spark._jsparkSession
        conf = session.conf()
        for key, value in DEFAULTS.items():
            if not conf.contains(key):
                conf.set(key, value)
        for key, value in self._catalog_conf().items():
            conf.set(_CONF + key, value)
        self.put(session)
        listener = self.jvm.new(
            "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper", _Listener(self, session)
        )
        session.streams().addListener(listener)
        self._joined.append((session, listener))
        self._python.append(spark)
        self._follow(spark)

    def put(self, session: JavaObject) -> None:
        """Puts a catalog made for this JVM session into it, and the plans of its commands."""
        catalogs_of(self.jvm, session).put(self.lake.name, SparkCatalog(self.lake, session))
        self._planning.join(session)

    def python_session(self, session: JavaObject) -> Any:
        """The PySpark session of a JVM session: one that the lake was put into, else a new one."""
        for spark in self._python:
            if spark._jsparkSession.equals(session):
                return spark
        first = self._python[0]
        return type(first)(first.sparkContext, session)

    def use_as_in(self, session: JavaObject, clone: JavaObject) -> None:
        """Makes the lake current in a clone of ``session`` if it is current there: Spark's clones
        start in ``spark_catalog``, where a name without a catalog would be another table."""
        current = session.sessionState().catalogManager()
        if str(current.currentCatalog().name()) == self.lake.name:
            manager = clone.sessionState().catalogManager()
            manager.setCurrentCatalog(self.lake.name)
            manager.setCurrentNamespace(current.currentNamespace())

    def leave(self) -> None:
        """Takes the lake out of all sessions it joined. Never fails: the sessions may be stopped
        already."""
        for spark in self._python:
            getattr(spark, "_turnstile_lakes", {}).pop(self.lake.name, None)
        for session, listener in self._joined:
            try:
                session.streams().removeListener(listener)
                self._planning.leave(session)
                catalogs_of(self.jvm, session).remove(self.lake.name)
                catalogs_of(self.jvm, session).remove(catalog_of(self.lake.name))
                for key in self._catalog_conf():
                    session.conf().unset(_CONF + key)
            except Exception as e:
                log.debug("turnstile_spark: leaving a session: %s", e)
        self._joined.clear()
        self._python.clear()

    def _catalog_conf(self) -> dict[str, str]:
        """The entries for the lake, and for the catalog of its scopes, that Delta finds below
        ``spark.sql.catalog``. Neither has a client of Delta's own: after every commit it would look
        for one to report to.
        """
        name = self.lake.name
        return {
            name: _UNITY,
            f"{name}.uri": self.lake.api.http.url,
            f"{name}.token": self._token or "none",
            f"{name}.deltaRestApi.enabled": "false",
            f"{catalog_of(name)}.deltaRestApi.enabled": "false",
        }

    def _follow(self, spark: Any) -> None:
        """Puts the lake into sessions made from this one, and completes pending writes before it
        stops."""
        lakes = spark.__dict__.setdefault("_turnstile_lakes", {})
        first = not lakes
        lakes[self.lake.name] = self
        if not first or getattr(spark.newSession, "turnstile", False):
            return
        kind = type(spark)

        def new_session() -> Any:
            created = kind.newSession(spark)
            for catalogs in list(lakes.values()):
                catalogs.join(created)
            return created

        def stop() -> None:
            for catalogs in list(lakes.values()):
                catalogs.lake.checksums.flush()
            kind.stop(spark)

        new_session.turnstile = True  # type: ignore[attr-defined]
        spark.newSession = new_session
        spark.stop = stop


class _Listener(Proxy):
    """Puts the lake into the session that Spark cloned for a streaming query."""

    def __init__(self, sessions: SessionCatalogs, session: JavaObject) -> None:
        self.jvm = sessions.jvm
        self._sessions = sessions
        self._session = session

    def onQueryStarted(self, event: JavaObject) -> None:
        query = self._session.streams().get(event.id())
        if query is not None:
            clone = query.streamingQuery().sparkSessionForStream()
            clone.conf().set(STREAM, "true")
            self._sessions.put(clone)
            self._sessions.use_as_in(self._session, clone)

    def onQueryProgress(self, event: JavaObject) -> None:
        """Nothing to do."""

    def onQueryIdle(self, event: JavaObject) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: JavaObject) -> None:
        """Nothing to do."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

"""Storage credentials from the server, for tables on S3: vended for one table each, and renewed
before they expire.

The classes for it come with Delta: Unity Catalog's Hadoop library is one of its dependencies, so
the JVMs of driver and executors have it. A table's file system options name its credential
provider, which asks the server again whenever its credentials are about to expire, on every
executor by itself, in the middle of a long scan too. That is why they are not renewed from Python,
which could change the driver's configuration only, and only between two statements. The options
also give each table a file system of its own, because Hadoop otherwise shares one per bucket, with
the credentials of its first use. They stay the same as long as the lake is attached: Delta's cache
of tables is keyed by them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_spark.jvm import JavaObject, Jvm, string_dict

log = logging.getLogger("turnstile_spark")
_HADOOP = "io.unitycatalog.hadoop.UCCredentialHadoopConfs"
#: Settings with which a user gives S3A credentials; a session that has one of them needs none from
#: the server.
_OWN = ("fs.s3a.access.key", "fs.s3a.aws.credentials.provider")


class Credentials:
    """The file system options by which the tables of one lake are opened. ``session`` is a JVM
    ``SparkSession``; ``vended``: whether the server is asked; None: unless the session has S3
    credentials of its own. Thread-safe.
    """

    def __init__(self, jvm: Jvm, session: JavaObject, api: Api, token: str | None, vended: bool | None) -> None:
        self._jvm = jvm
        self._session = session
        self._api = api
        self._token = token
        self._asks = vended
        self._vends: bool | None = None
        self._lock = threading.Lock()
        self._tables: dict[str, dict[str, str]] = {}

    def of_table(self, table_id: str, location: str) -> dict[str, str]:
        """Options for a table: to write it, or to read it where the server permits no more. Empty
        when the table is not on S3 or the server vends nothing. Raises :class:`ApiError`."""
        if not location.startswith("s3a:"):
            return {}
        with self._lock:
            if table_id not in self._tables:
                vends = self._may_ask(lambda: self._api.vends(table_id))
                self._tables[table_id] = self._fetch(table_id) if vends else {}
            return self._tables[table_id]

    def of_new_table(self, table_id: str, location: str) -> dict[str, str]:
        """Options for a table that has an id and a location and no name yet. As
        :meth:`of_table`."""
        if not location.startswith("s3a:"):
            return {}
        with self._lock:
            if not self._may_ask(lambda: self._api.vends_for_staging_table(table_id)):
                return {}
        return self._build(lambda builder: builder.buildForStagingTable(table_id, "s3" + location.removeprefix("s3a")))

    def adopt(self, table_id: str, options: dict[str, str]) -> None:
        """Makes :meth:`of_table` return ``options``, the options of a new table, until
        :meth:`forget`: the server vends none for a table without a name."""
        with self._lock:
            self._tables[table_id] = options

    def forget(self, table_id: str) -> None:
        """Has the options of a table asked for again."""
        with self._lock:
            self._tables.pop(table_id, None)

    def _may_ask(self, probe: Callable[[], bool]) -> bool:
        """Whether the session wants the server's credentials and the server vends any: ``probe``
        asks it, once."""
        if self._asks is None:
            conf = self._session.sparkContext().hadoopConfiguration()
            defaults = self._jvm.new("org.apache.hadoop.conf.Configuration")
            self._asks = all(conf.get(key) == defaults.get(key) for key in _OWN)
        if self._asks and self._vends is None:
            self._vends = probe()
        return self._asks and bool(self._vends)

    def _fetch(self, table_id: str) -> dict[str, str]:
        operations = self._jvm.cls(_HADOOP + "$TableOperation")
        try:
            return self._build(lambda builder: builder.buildForTable(table_id, operations.READ_WRITE))
        except ApiError as e:
            if e.status != 403:
                raise
            return self._build(lambda builder: builder.buildForTable(table_id, operations.READ))

    def _build(self, build: Callable[[Any], JavaObject]) -> dict[str, str]:
        """The options that Unity Catalog's builder makes; its first request for credentials is part
        of that."""
        static = self._jvm.hash_map({"type": "static", "token": self._token or "none"})
        tokens = self._jvm.cls("io.unitycatalog.client.auth.TokenProvider").create(static)
        conf = self._session.sessionState().newHadoopConf()
        builder = self._jvm.cls(_HADOOP).builder(self._api.http.url, "s3").tokenProvider(tokens).hadoopConf(conf)
        try:
            return string_dict(build(builder))
        except (CapturedException, Py4JJavaError) as e:
            raise _api_error(e) from None


def _api_error(e: CapturedException | Py4JJavaError) -> ApiError:
    """The error of the server behind an exception of Unity Catalog's client."""
    cause = e._origin if isinstance(e, CapturedException) else e.java_exception
    while cause is not None:
        if cause.getClass().getName() == "io.unitycatalog.client.ApiException":
            return ApiError(int(cause.getCode()), f"Http{cause.getCode()}", str(cause.getMessage()))
        cause = cause.getCause()
    return ApiError(0, "NoAnswer", f"no storage credentials: {e}")

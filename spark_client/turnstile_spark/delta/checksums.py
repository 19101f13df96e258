"""Version checksums: Delta's summary of a version (``_delta_log/<version>.crc``), written in the
background.

With a checksum the next reader knows protocol, metadata and size of a table without reading its
log. It is optional, and nothing waits for it; yet Delta writes it before a commit returns, on S3
with 22 requests one after the other: a temporary file, renamed, by a file system client made for
that one file. Here the same content is written by one request, when the statement may be over
already.

Delta's own writing cannot be switched off for one table, and other tables of the session keep
theirs. But it is the only use of Hadoop's ``FileContext`` in Delta, and a table has file system
options of its own: :data:`OPTIONS` name a class for it that is not there. So Delta's attempt fails
at once, which is a warning to Delta; :func:`silence` keeps that out of the log. With the session's
``spark.databricks.delta.writeChecksumFile.enabled=false`` no checksum is written at all.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from turnstile_spark.delta.log_files import STAGED, LogFiles, Write
from turnstile_spark.jvm import JavaObject, Jvm

log = logging.getLogger("turnstile_spark")
#: Of tables whose checksums are written here: file system options, by which Delta cannot write
#: them.
OPTIONS = {"fs.AbstractFileSystem.s3a.impl": "checksums.are.written.by.turnstile_spark"}
WRITER = "org.apache.spark.sql.delta.hooks.ChecksumHook$WriteChecksum"
_SWITCH = "spark.databricks.delta.writeChecksumFile.enabled"
#: Seconds within which Delta makes a commit that was answered the table's current snapshot.
_PATIENCE = 60.0


def options(location: str) -> dict[str, str]:
    """The file system options of the table at ``location``: :data:`OPTIONS` on S3, elsewhere none.
    Delta writes checksums itself there: on a file system with a rename it is two operations."""
    return OPTIONS if location.startswith("s3a:") else {}


def silence(jvm: Jvm) -> None:
    """Switches off the log of Delta's writer of checksums. Idempotent. Does nothing in a JVM that
    logs without log4j."""
    try:
        levels = jvm.cls("org.apache.logging.log4j.Level")
        jvm.cls("org.apache.logging.log4j.core.config.Configurator").setLevel(WRITER, levels.OFF)
    except Exception as e:
        log.debug("turnstile_spark: Delta warns of checksums that it does not write: %s", e)


def of_folded(derived: str, content: str, version: int) -> str:
    """The checksum, as JSON, of ``version``, whose commit ``content`` was folded from several.
    ``derived``: that of the last of them, after which the table has the same files and definition.
    """
    actions = [json.loads(line) for line in content.splitlines()]
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    checksum = json.loads(derived) | {"txnId": info["txnId"], "inCommitTimestampOpt": info["inCommitTimestamp"]}
    for file in checksum.get("allFiles") or ():
        if (row_version := file.get("defaultRowCommitVersion")) is not None:
            file["defaultRowCommitVersion"] = min(row_version, version)
    if checksum.get("setTransactions") is not None:
        applications = {txn["appId"]: txn for txn in checksum["setTransactions"]}
        applications |= {action["txn"]["appId"]: action["txn"] for action in actions if "txn" in action}
        checksum["setTransactions"] = list(applications.values())
    return json.dumps(checksum, separators=(",", ":")) + "\n"


class Checksums:
    """Writes checksums of one lake's tables. Thread-safe. Failures are logged and change nothing
    else. ``session`` is the JVM ``SparkSession`` in which the lake was attached."""

    def __init__(self, jvm: Jvm, session: JavaObject, files: LogFiles) -> None:
        self._jvm = jvm
        self._session = session
        self._files = files
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="turnstile-checksum")
        self._lock = threading.Lock()
        self._pending: set[Future[None]] = set()

    def write_later(self, delta_log: JavaObject, txn_id: str, version: int, file: Write) -> None:
        """Writes the checksum of ``version``, which transaction ``txn_id`` committed, into ``file``
        (which has no content yet), once Delta has a snapshot of it. Delta knows it then: it derives
        it from the one before and the commit.
        """
        if not options(file.path):
            return
        self._submit(self._write, delta_log, txn_id, version, file)

    def write_of_transaction(self, delta_log: JavaObject, latest: int, file: Write) -> None:
        """Writes the checksum of the version whose commit file is ``file``, which a transaction
        committed. The table's held commits were folded into it; the last of them is version
        ``latest`` of ``delta_log``. To be called before that log is dropped. Nothing is written
        when Delta has derived no checksum.
        """
        try:
            snapshot = delta_log.unsafeVolatileSnapshot()
            derived = snapshot.checksumOpt()
            if snapshot.version() == latest and derived.isDefined():
                self._submit(self._write_of_transaction, derived.get(), file)
        except Exception as e:
            log.info("turnstile_spark: could not derive the checksum of %s: %s", file.path, e)

    def _write_of_transaction(self, derived: JavaObject, file: Write) -> None:
        log_path = file.path.rpartition(f"/{STAGED}/")[0]
        version = int(file.name.partition(".")[0])
        path = f"{log_path}/{version:020d}.crc"
        try:
            if self._is_on():
                content = of_folded(self._text(derived), file.content, version)
                self._files.write(replace(file, path=path, content=content), durable=False)
        except Exception as e:
            log.info("turnstile_spark: could not write %s: %s", path, e)

    def flush(self, timeout: float = 30.0) -> None:
        """Waits, at most ``timeout`` seconds, until the checksums of all calls of
        :meth:`write_later` are written."""
        with self._lock:
            pending = set(self._pending)
        wait(pending, timeout)

    def close(self) -> None:
        """:meth:`flush`, and ends the threads. Idempotent."""
        self.flush()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, write: Callable[..., None], *args: Any) -> None:
        try:
            task = self._pool.submit(write, *args)
        except RuntimeError:  # the lake is detached
            return
        with self._lock:
            self._pending.add(task)
        task.add_done_callback(self._finish)

    def _is_on(self) -> bool:
        """Whether the session writes checksums."""
        return str(self._session.conf().get(_SWITCH, "true")).lower() == "true"

    def _text(self, checksum: JavaObject) -> str:
        mapper = self._jvm.module("org.apache.spark.sql.delta.util.JsonUtils").mapper()
        return str(mapper.writeValueAsString(checksum)) + "\n"

    def _finish(self, task: Future[None]) -> None:
        with self._lock:
            self._pending.discard(task)

    def _write(self, delta_log: JavaObject, txn_id: str, version: int, file: Write) -> None:
        try:
            if not self._is_on():
                return
            snapshot = self._snapshot(delta_log, version)
            if snapshot is None:
                return
            checksum = self._jvm.scala_copy(snapshot.computeChecksum(), txnId=self._jvm.some(txn_id))
            self._files.write(replace(file, content=self._text(checksum)))
        except Exception as e:
            log.info("turnstile_spark: could not write %s: %s", file.path, e)

    @staticmethod
    def _snapshot(delta_log: JavaObject, version: int) -> JavaObject | None:
        """Returns Delta's snapshot of ``version``; None when Delta has a later one, since that has
        as good a checksum."""
        until = time.monotonic() + _PATIENCE
        pause = 0.005
        while time.monotonic() < until:
            snapshot = delta_log.unsafeVolatileSnapshot()
            if (current := snapshot.version()) >= version:
                return snapshot if current == version else None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)
        return None

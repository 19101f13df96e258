"""The small Delta logs by which Spark reads planned files (``planned_reads``)."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from turnstile_spark.errors import turnstile_error
from turnstile_spark.jvm import JavaObject, Jvm

#: Where the small logs are: a folder that driver and executors see. Not needed where Spark runs in
#: one process.
FOLDER: Final = "spark.turnstile.plans.folder"


class PlannedReads:
    """The small logs of one lake's reads; :meth:`close` removes them. Thread-safe."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._numbers = itertools.count()
        self._local: Path | None = None
        self._remote: list[tuple[JavaObject, JavaObject]] = []

    def write(self, spark: Any, content: str) -> str:
        """Writes version 0 of a log; returns the folder of its table."""
        folder = spark.conf.get(FOLDER, None)
        if not folder and not str(spark.sparkContext.master).startswith("local"):
            text = (
                f"a planned read on a cluster: set {FOLDER} to a folder that its executors can read, such as "
                f"s3a://bucket/tmp"
            )
            raise turnstile_error("TURNSTILE_REFUSED", text)
        if not folder:
            self._local = self._local or Path(tempfile.mkdtemp(prefix="turnstile-plans-"))
            table = self._local / str(next(self._numbers))
            (table / "_delta_log").mkdir(parents=True)
            (table / "_delta_log" / f"{0:020d}.json").write_text(content, encoding="utf-8")
            return table.as_uri()
        name = str(self._jvm.cls("java.util.UUID").randomUUID().toString())
        at = self._jvm.new("org.apache.hadoop.fs.Path", f"{folder}/turnstile-plans/{name}")
        system = at.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self._remote.append((system, at))
        stream = system.create(self._jvm.new("org.apache.hadoop.fs.Path", at, f"_delta_log/{0:020d}.json"), False)
        try:
            stream.write(content.encode())
        finally:
            stream.close()
        return str(at.toString())

    def close(self) -> None:
        """Removes the logs. DataFrames that were made of them cannot be read any more.
        Idempotent."""
        if self._local is not None:
            shutil.rmtree(self._local, ignore_errors=True)
            self._local = None
        while self._remote:
            system, at = self._remote.pop()
            system.delete(at, True)

"""A Spark session for the demo: small, and quiet on the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """Let what is started inside write its standard error to a file; a JVM keeps it for life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives a minute on few cores: the thorough compiler and a parallel collector cost more than they give."""


def start(folder: Path, app: str, *, cores: int, memory: str) -> Any:
    """A session whose files stay under ``folder``; its log is ``folder/<app>.log``."""
    import turnstile_spark

    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{QUICK} -Dderby.system.home={folder / app}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    with stderr_to(folder / f"{app}.log"):
        spark = turnstile_spark.session(app, small=True, master=f"local[{cores}]", options=options)
        spark.sparkContext.setLogLevel("ERROR")
    return spark

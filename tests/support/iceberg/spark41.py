"""An environment with the Spark that Iceberg's runtime is made for; this project's own is a newer
one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.downloads import environment

if TYPE_CHECKING:
    from pathlib import Path

SPARK = "pyspark==4.1.*"


def python() -> Path:
    """Returns the environment's interpreter: the first time it takes some minutes and 450 MB.
    Raises Missing."""
    return environment("iceberg-spark-4.1", SPARK)

"""An environment with the Spark that Iceberg's runtime is made for; this project's own is a newer one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.downloads import Missing, alone, cache

SPARK = "pyspark==4.1.*"
MAKE_SECONDS = 1_200


def python() -> Path:
    """The environment's interpreter, kept between runs: the first time it takes some minutes and 450 MB.

    Raises:
        Missing: Spark cannot be downloaded or installed; the message has the end of what was said.
    """
    home = cache("iceberg-spark-4.1")
    made = home / "bin" / "python"
    complete = home / "complete"
    uv = Path(sys.executable).with_name("uv")
    with alone(home):
        if complete.exists():
            return made
        for command in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
            [uv, "pip", "install", "--quiet", "--python", made, SPARK],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAKE_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Missing(f"no environment with {SPARK}: {error}") from error
            if done.returncode:
                raise Missing(f"no environment with {SPARK}: {done.stderr[-300:]}")
        complete.touch()
    return made

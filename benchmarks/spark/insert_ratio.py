"""What a commit through Turnstile costs a Spark job: the same one-row INSERT three ways,
interleaved in one session.

    python -m benchmarks.spark.insert_ratio [--only files|s3] [--rounds 25] [--output json]
    python -m benchmarks.spark.insert_ratio --url URL [--s3-url URL --s3-endpoint URL]

* through Turnstile;
* on a path-based Delta table with the same table features (in-commit timestamps, vacuum protocol
  check, deletion vectors), less the one that makes a table catalog-managed;
* on a plain path-based Delta table.

Twice: with tables in files, and with tables in an S3 emulator behind a proxy (``counting_proxy``)
that delays every request by 30 ms, a listing by 60 ms, and a call of the server by 5 ms, which is
about what S3 and DynamoDB take. The proxy also counts the requests of each way by kind; a checksum
that the client writes when the INSERT is over counts, but its time does not: no job waits for it.
All three ways have the S3A settings of ``turnstile_spark.session``.

Prints medians, ratios and requests. Goals: at most 1.05 of the same-features table on files, 0.7 on
S3. Without ``--url`` it starts a server of its own, on SQLite. Ratios are of medians of interleaved
runs, whose order changes from round to round, so that what disturbs one disturbs all three; a busy
machine still blurs them, so its load is printed too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import turnstile_spark
from benchmarks.counting_proxy import AREAS, COORDINATOR_LATENCY, KINDS, S3_LATENCY, CountingProxy

WARM_UP: Final = 8
SAME_FEATURES: Final = {
    "delta.enableInCommitTimestamps": "true",
    "delta.enableDeletionVectors": "true",
    "delta.feature.vacuumProtocolCheck": "supported",
}
GOALS: Final = {"files": 1.05, "s3": 0.7}
"""Of the median of the table with the same features."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables are: the ``url`` of the server, and the folder of the path-based ones; on S3
    with the proxies before the store and before the server."""

    name: str
    url: str
    folder: str
    s3: CountingProxy | None = None
    api: CountingProxy | None = None


@contextlib.contextmanager
def on_files(url: str | None, work: Path) -> Iterator[Place]:
    """Tables in files: of the server at ``url``, or of one for the time being."""
    if url:
        yield Place("files", url, str(work / "paths"))
        return
    from turnstile_server import Server

    with Server.start(work / "files", 0) as server:
        yield Place("files", server.url, str(work / "paths"))


@contextlib.contextmanager
def on_s3(url: str | None, endpoint: str | None, work: Path) -> Iterator[Place]:
    """Tables in the bucket ``lake`` of the S3 server at ``endpoint``, of the server at ``url``; or
    of an emulator and a server for the time being. Proxies are before both."""
    with contextlib.ExitStack() as running:
        if not url or not endpoint:
            from tests.support.server import server_on_s3
            from tests.support.store.backends import MINISTACK
            from tests.support.store.servers import Servers

            (work / "s3").mkdir()
            endpoint = str(Servers(running, work / "s3").get(MINISTACK).url)
            url = str(running.enter_context(server_on_s3(work / "s3-server", endpoint)).url)
        s3 = running.enter_context(CountingProxy(endpoint))
        api = running.enter_context(CountingProxy(url))
        yield Place("s3", api.url, "s3a://lake/paths", s3, api)


class Ways:
    """The three tables of one place, and what was measured of each."""

    def __init__(self, spark: Any, place: Place) -> None:
        self.spark = spark
        self.place = place
        self.lake = turnstile_spark.attach(spark, f"lake_{place.name}", place.url)
        self.name = f"default.insert_ratio_{time.time_ns()}"
        folder = f"{place.folder}/{self.name}"
        self.tables = {
            "turnstile": f"{self.lake.name}.{self.name}",
            "same features": f"delta.`{folder}/same`",
            "plain": f"delta.`{folder}/plain`",
        }
        properties = ", ".join(f"'{k}' = '{v}'" for k, v in SAME_FEATURES.items())
        spark.sql(f"CREATE TABLE {self.tables['turnstile']} (id BIGINT, name STRING)")
        for way, more in (("same features", f"TBLPROPERTIES ({properties})"), ("plain", "")):
            spark.sql(f"CREATE TABLE {self.tables[way]} (id BIGINT, name STRING) USING delta {more}")
        self.taken: dict[str, list[float]] = {way: [] for way in self.tables}
        self.requests: dict[str, Counter[tuple[str, str]]] = {way: Counter() for way in self.tables}
        self.calls: Counter[str] = Counter()

    def round(self, number: int, counts: bool) -> None:
        """One INSERT each way; the order changes from round to round."""
        ways = list(self.tables)
        for way in ways[number % 3 :] + ways[: number % 3]:
            self._insert(way, number, counts)

    def _insert(self, way: str, number: int, counts: bool) -> None:
        proxy = self.place.s3
        calls = self.lake.api.http.requests
        if proxy:
            proxy.clear()
        calls.clear()
        began = time.perf_counter()
        self.spark.sql(f"INSERT INTO {self.tables[way]} VALUES ({number}, 'x')")
        taken_ms = (time.perf_counter() - began) * 1000
        self.lake.context.checksums.flush()
        if counts:
            self.taken[way].append(taken_ms)
            self.requests[way].update(proxy.counts() if proxy else {})
            self.calls.update(calls if way == "turnstile" else {})

    def figures(self) -> dict[str, Any]:
        """What was measured: ``requests`` are of S3, per INSERT, ``calls`` of Turnstile's
        server."""
        medians = {way: round(statistics.median(times), 1) for way, times in self.taken.items()}
        rounds = len(self.taken["turnstile"])
        return {
            "median_ms": medians,
            "quartiles_ms": {k: [round(q, 1) for q in statistics.quantiles(v, n=4)] for k, v in self.taken.items()},
            "ratios": {way: round(medians["turnstile"] / medians[way], 3) for way in ("same features", "plain")},
            "goal": GOALS[self.place.name],
            "calls": {call: round(n / rounds, 2) for call, n in sorted(self.calls.items())},
            "requests": {
                way: {f"{kind} {area}": round(n / rounds, 2) for (kind, area), n in counts.items()}
                for way, counts in self.requests.items()
            },
            "features": {
                way: sorted(self.spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].tableFeatures)
                for way, table in self.tables.items()
            },
        }

    def close(self) -> None:
        """Drops the table of the lake."""
        self.lake.table(self.name).drop()
        self.lake.detach()


def measure(spark: Any, place: Place, rounds: int) -> dict[str, Any]:
    """Makes the three tables, measures, and returns the figures."""
    ways = Ways(spark, place)
    for number in range(WARM_UP + rounds):
        if number == WARM_UP and place.s3 and place.api:
            place.s3.latency = dict(S3_LATENCY)
            place.api.latency = dict(COORDINATOR_LATENCY)
        ways.round(number, counts=number >= WARM_UP)
    if place.s3 and place.api:
        place.s3.latency = {}
        place.api.latency = {}
    figures = ways.figures()
    ways.close()
    return {"rounds": rounds, "load": [round(x, 1) for x in os.getloadavg()], **figures}


def run(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Measures in the places that ``options`` name; returns the figures by place."""
    with contextlib.ExitStack() as running:
        places = []
        if options.only != "s3":
            places.append(running.enter_context(on_files(options.url, work)))
        if options.only != "files" and (options.s3_url or not options.url):
            places.append(running.enter_context(on_s3(options.s3_url, options.s3_endpoint, work)))
        keys = {"access_key": os.environ.get("AWS_ACCESS_KEY_ID", "test")}
        keys["secret_key"] = os.environ.get("AWS_SECRET_ACCESS_KEY", "test")
        s3 = next(({"endpoint": place.s3.url, **keys} for place in places if place.s3), None)
        settings = {"spark.sql.warehouse.dir": str(work / "warehouse")}
        spark = turnstile_spark.session("insert ratio", s3=s3, small=True, master="local[2]", options=settings)
        running.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")
        return {place.name: measure(spark, place, options.rounds) for place in places}


def show(name: str, figures: dict[str, Any]) -> None:
    """Prints the figures of one place."""
    load = ", ".join(map(str, figures["load"]))
    print(f"\n{name}: {figures['rounds']} rounds, load {load} on {os.cpu_count()} cores")
    for way, median in figures["median_ms"].items():
        low, _, high = figures["quartiles_ms"][way]
        print(f"  {way:15} median {median:7.1f} ms   quartiles {low:.1f} .. {high:.1f}")
    same = figures["ratios"]["same features"]
    plain = figures["ratios"]["plain"]
    print(f"  ratio to same features {same:.3f} (goal {figures['goal']}), to plain {plain:.3f}")
    print("  calls of the server per INSERT:", ", ".join(f"{call} {n}" for call, n in figures["calls"].items()))
    requests = figures["requests"]
    if not any(requests.values()):
        return
    print("  requests of S3 per INSERT:")
    print(f"    {'':15}" + "".join(f"{way:>15}" for way in requests))
    for row in [f"{kind} {area}" for kind in KINDS for area in AREAS]:
        if any(row in counts for counts in requests.values()):
            print(f"    {row:15}" + "".join(f"{counts.get(row, 0):>15.2f}" for counts in requests.values()))
    print(f"    {'all':15}" + "".join(f"{sum(counts.values()):>15.2f}" for counts in requests.values()))


def main() -> None:
    """Parses the command line, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="base URL of a running server whose tables are in files")
    parser.add_argument("--s3-url", help="base URL of a running server whose tables are in the bucket lake")
    parser.add_argument("--s3-endpoint", help="of its S3 server; keys are in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY")
    parser.add_argument("--only", choices=["files", "s3"], help="measure in one of the two places only")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    if bool(options.s3_url) != bool(options.s3_endpoint):
        parser.error("--s3-url and --s3-endpoint go together")
    with tempfile.TemporaryDirectory() as work:
        figures = run(options, Path(work))
    if options.output == "json":
        print(json.dumps(figures, indent=2))
        return
    for name, of_place in figures.items():
        show(name, of_place)


if __name__ == "__main__":
    main()

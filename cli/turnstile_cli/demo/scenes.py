"""The scenes, in order. Each makes its changes in Spark and the same ones in pandas frames, to
compare with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape

from turnstile_cli.demo import data, ledger
from turnstile_cli.demo.ledger import Ledger
from turnstile_cli.demo.writers import Attempt, Writers

SCHEMA = "nyc"
LAKE = f"lake.{SCHEMA}"


@dataclass
class Stage:
    """The state that all scenes share: session, lake, terminal and pandas frames, and the results
    so far."""

    spark: Any
    lake: Any
    console: Any
    url: str
    token: str | None
    folder: Path
    frames: dict[str, Any]
    writers: int
    batches: int
    attempts: list[Attempt]
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def show(self, statement: str) -> None:
        """Print a line about the present step."""
        self.console.print(f"   [dim]{escape(statement)}[/dim]", highlight=False, soft_wrap=True)

    def sql(self, statement: str) -> Any:
        """Run a statement that the viewer sees."""
        self.show(statement)
        return self.spark.sql(statement)

    def create(self, table: str, columns: str) -> None:
        """CREATE TABLE; the viewer is spared the columns."""
        self.show(f"CREATE TABLE lake.{SCHEMA}.{table} ({columns.count(',') + 1} columns) USING delta")
        self.spark.sql(f"CREATE TABLE lake.{SCHEMA}.{table} ({columns}) USING delta")

    @contextmanager
    def scene(self, title: str) -> Iterator[None]:
        """Announce and time one scene."""
        self.console.print(f"[bold]{title}[/bold]")
        began = time.perf_counter()
        yield
        self.seconds[title] = time.perf_counter() - began
        self.console.print(f"   [green]done[/green] in {self.seconds[title]:.1f} s")

    def latest(self, table: str) -> int:
        """The newest version of a table."""
        return int(self.lake.table(f"{SCHEMA}.{table}").head().latest)

    def compare(self, table: str, frame: Any, expected: Any, what: str = "") -> None:
        """Counts and sums of a Spark frame against a pandas one; a difference makes the demo
        fail."""
        ours = data.fingerprint_of_spark(frame)
        differences = data.differences(ours, data.fingerprint_of_pandas(expected))
        title = f"{table}{what}"
        if differences:
            self.problems += [f"{title}: {difference}" for difference in differences]
            self.console.print(f"   [red]{title}: differs from pandas[/red]: {differences[0]}")
        else:
            rows = int(ours["rows"])
            columns = len(expected.columns)
            self.console.print(
                f"   {title}: {rows:,} rows, counts and sums of {columns} columns equal pandas'", soft_wrap=True
            )


def load_small_tables(stage: Stage) -> None:
    """Four tables, each version 0 with its data: CREATE TABLE AS SELECT, and the DataFrame
    writer."""
    spark = stage.spark
    if SCHEMA in stage.lake.namespaces():
        spark.sql(f"DROP NAMESPACE {LAKE} CASCADE")
    stage.sql(f"CREATE NAMESPACE {LAKE}")
    for table in ("airlines", "airports", "planes", "weather"):
        frame = data.read(spark, table, data.export(stage.frames[table], stage.folder / "csv" / f"{table}.csv"))
        if table in ("airlines", "airports"):
            frame.createOrReplaceTempView(f"{table}_csv")
            stage.sql(f"CREATE TABLE {LAKE}.{table} USING delta AS SELECT * FROM {table}_csv")
        else:
            stage.show(f"frame.write.format('delta').saveAsTable('{LAKE}.{table}')")
            frame.write.format("delta").saveAsTable(f"{LAKE}.{table}")


def load_flights(stage: Stage) -> None:
    """336,776 flights month by month, each month in three inserts."""
    spark = stage.spark
    flights = stage.frames["flights"]
    stage.create("flights", data.SCHEMAS["flights"])
    stage.show(f"INSERT INTO {LAKE}.flights SELECT * FROM ...   -- 12 months, 3 inserts each")
    for month in range(1, 13):
        for part, (first, last) in enumerate(((1, 10), (11, 20), (21, 31)), start=1):
            rows = flights[(flights.month == month) & flights.day.between(first, last)]
            address = data.export(rows, stage.folder / "csv" / "flights" / f"{month:02d}-{part}.csv")
            data.read(spark, "flights", address).createOrReplaceTempView("batch")
            spark.sql(f"INSERT INTO {LAKE}.flights SELECT * FROM batch")


def race(stage: Stage) -> None:
    """Separate processes append to one table at once; each batch is one day's flights."""
    import pandas as pd

    stage.create("board", data.SCHEMAS["flights"])
    flights = stage.frames["flights"]
    days = [day for _, day in flights.groupby(["month", "day"])][: stage.writers * stage.batches]
    files = [data.export(day, stage.folder / "csv" / "board" / f"{n:03d}.csv") for n, day in enumerate(days)]
    stage.frames["board"] = pd.concat(days)
    shares = [files[n :: stage.writers] for n in range(stage.writers)]
    writers = Writers(stage.url, stage.token, f"{LAKE}.board", stage.folder, shares)
    try:
        writers.ready()
        race_result = writers.go()
    finally:
        writers.stop()
    stage.attempts += race_result.attempts
    won = sum(attempt.won for attempt in race_result.attempts)
    stage.notes.append(
        f"{stage.writers} writer processes: {won} commits on one table in {race_result.seconds:.1f} s, "
        f"{len(race_result.attempts) - won} proposals lost a version and were rebased"
    )
    if won != len(days):
        stage.problems.append(f"the writers sent {len(days)} batches and {won} were acknowledged")


def change_flights(stage: Stage) -> None:
    """MERGE, UPDATE, ALTER and DELETE."""
    spark = stage.spark
    flights = stage.frames["flights"]
    key = ["time_hour", "carrier", "flight"]
    late = flights[(flights.month == 2) & flights.arr_delay.isna()].copy()
    late["arr_delay"] = late["arr_delay"].fillna(999)
    extra = flights[(flights.month == 12) & (flights.day == 31)].copy()
    extra["flight"] += 90_000
    changes = _concat(late, extra)
    data.read(spark, "flights", data.export(changes, stage.folder / "csv" / "corrections.csv")).createOrReplaceTempView(
        "corrections"
    )
    stage.sql(
        f"MERGE INTO {LAKE}.flights f USING corrections c"
        " ON f.time_hour = c.time_hour AND f.carrier = c.carrier AND f.flight = c.flight AND f.month IN (2, 12)"
        " WHEN MATCHED THEN UPDATE SET arr_delay = c.arr_delay WHEN NOT MATCHED THEN INSERT *"
    )
    flights = _concat(flights, extra)
    matched = flights.set_index(key).index.isin(late.set_index(key).index)
    flights.loc[matched, "arr_delay"] = 999

    stage.sql(f"UPDATE {LAKE}.flights SET distance = distance + 1 WHERE origin = 'JFK' AND month = 7")
    flights.loc[(flights.origin == "JFK") & (flights.month == 7), "distance"] += 1

    stage.sql(f"ALTER TABLE {LAKE}.flights ADD COLUMN gain INT")
    stage.sql(f"ALTER TABLE {LAKE}.flights SET TBLPROPERTIES ('team' = 'operations')")
    stage.sql(f"UPDATE {LAKE}.flights SET gain = dep_delay - arr_delay WHERE month = 1")
    flights["gain"] = (flights.dep_delay - flights.arr_delay).where(flights.month == 1)

    stage.sql(f"DELETE FROM {LAKE}.flights WHERE dep_time IS NULL")
    stage.frames["flights"] = flights[flights.dep_time.notna()]


def travel(stage: Stage, loaded: int, before: Any) -> None:
    """The table as it was when it had just been loaded, by version and by time."""
    stage.compare(
        "flights", stage.sql(f"SELECT * FROM {LAKE}.flights VERSION AS OF {loaded}"), before, f" as of version {loaded}"
    )
    history = {row["version"]: row for row in stage.lake.table(f"{SCHEMA}.flights").history()}
    moment = history[loaded]["timestamp"].isoformat(sep=" ")
    rows = stage.sql(f"SELECT count(*) AS rows FROM {LAKE}.flights TIMESTAMP AS OF '{moment}'").first()["rows"]
    if rows != len(before):
        stage.problems.append(f"flights as of {moment}: {rows} rows, not {len(before)}")
    operations = [history[version]["operation"] for version in range(loaded + 1, max(history) + 1)]
    stage.notes.append(f"flights after version {loaded}: {', '.join(operations)}")


def verify(stage: Stage) -> None:
    """Every table against pandas; every published version against the ratified bytes."""
    for table, frame in stage.frames.items():
        spark_frame = stage.spark.table(f"{LAKE}.{table}")
        stage.compare(table, spark_frame, frame)
        stage.rows[table] = len(frame)
        audited = ledger.audit(stage.spark, stage.lake, f"{SCHEMA}.{table}")
        stage.ledgers[table] = audited
        stage.problems += [f"{table}: {problem}" for problem in audited.problems]
    equal = sum(audited.equal for audited in stage.ledgers.values())
    stage.console.print(f"   {equal} published versions equal the ratified bytes")


def _concat(*frames: Any) -> Any:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)

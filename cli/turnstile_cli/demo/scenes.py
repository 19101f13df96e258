"""The scenes, in order. Each makes its changes in Spark and the same ones in the pandas mirror."""

from __future__ import annotations

from typing import Any

from turnstile_cli.demo import data, ledger
from turnstile_cli.demo.stage import SCHEMA, Stage
from turnstile_cli.demo.writers import Writers

LAKE = f"lake.{SCHEMA}"


def load_small_tables(stage: Stage) -> None:
    """Four tables, each version 0 with its data: CREATE TABLE AS SELECT, and the DataFrame writer."""
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
    spark, flights = stage.spark, stage.frames["flights"]
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
        found = writers.go()
    finally:
        writers.stop()
    stage.attempts += found.attempts
    won = sum(attempt.won for attempt in found.attempts)
    stage.notes.append(
        f"{stage.writers} writer processes: {won} commits on one table in {found.seconds:.1f} s, "
        f"{len(found.attempts) - won} proposals lost a version and were rebased"
    )
    if won != len(days):
        stage.problems.append(f"the writers sent {len(days)} batches and {won} were acknowledged")


def change_flights(stage: Stage) -> None:
    """MERGE, UPDATE, ALTER and DELETE."""
    spark, flights = stage.spark, stage.frames["flights"]
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
    found = stage.sql(f"SELECT count(*) AS rows FROM {LAKE}.flights TIMESTAMP AS OF '{moment}'").first()["rows"]
    if found != len(before):
        stage.problems.append(f"flights as of {moment}: {found} rows, not {len(before)}")
    operations = [history[version]["operation"] for version in range(loaded + 1, max(history) + 1)]
    stage.notes.append(f"flights after version {loaded}: {', '.join(operations)}")


def verify(stage: Stage) -> None:
    """Every table against pandas; every published version against the ratified bytes."""
    for table, frame in stage.frames.items():
        spark_frame = stage.spark.table(f"{LAKE}.{table}")
        stage.compare(table, spark_frame, frame)
        stage.rows[table] = len(frame)
        found = ledger.audit(stage.spark, stage.lake, f"{SCHEMA}.{table}")
        stage.ledgers[table] = found
        stage.problems += [f"{table}: {problem}" for problem in found.problems]
    equal = sum(found.equal for found in stage.ledgers.values())
    stage.console.print(f"   {equal} published versions equal the ratified bytes")


def _concat(*frames: Any) -> Any:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)

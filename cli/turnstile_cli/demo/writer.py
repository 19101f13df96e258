"""One writer process: waits for the word, appends its batches, reports what it saw. Started by ``writers``.

Standard input: a JSON object with its orders, then ``go``. Standard output: ``ready``, then a JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from turnstile_cli.demo import data
from turnstile_cli.demo.meter import watch
from turnstile_cli.demo.session import start


def append_all(order: dict[str, Any]) -> dict[str, Any]:
    """Attach, wait, append; the report is ``{"seconds", "attempts"}``."""
    import turnstile_spark

    spark = start(Path(order["folder"]), order["name"], cores=1, memory="1g")
    lake = turnstile_spark.attach(spark, uri=order["url"], token=order["token"])
    batches = [data.read(spark, "flights", address) for address in order["batches"]]
    _ = spark.table(order["table"]).schema  # fails here, before the race, if the table cannot be loaded
    print("ready", flush=True)
    if sys.stdin.readline() != "go\n":
        raise SystemExit("nobody waits for this writer any more")
    attempts = watch(lake)
    began = time.perf_counter()
    for batch in batches:
        batch.writeTo(order["table"]).append()
    seconds = time.perf_counter() - began
    lake.detach()
    spark.stop()
    return {"seconds": seconds, "attempts": attempts}


if __name__ == "__main__":
    print(json.dumps(append_all(json.loads(sys.stdin.readline()))), flush=True)

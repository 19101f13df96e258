"""Queries by Spark with Iceberg's runtime, as a script of its own:
``python spark_reads.py URL QUERY...``; the last line it prints has the rows in JSON."""

from __future__ import annotations

import json
import sys

from spark_story import session  # beside this file: the interpreter has none of our packages
from tpc import shown

if __name__ == "__main__":
    url, *queries = sys.argv[1:]
    spark = session(url)
    found = [shown(spark.sql(query).collect()) for query in queries]
    spark.stop()
    print(json.dumps(found))

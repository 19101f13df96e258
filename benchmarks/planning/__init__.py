"""Planning of scans: Turnstile's file index beside Delta Spark, Iceberg's Java library, PyIceberg
and DuckDB, on equal tables (issue: planning).

    python -m benchmarks.planning                                  # 10,000 to 1,000,000 files: about half an hour
    python -m benchmarks.planning --files 10000 --only turnstile
    python -m benchmarks.planning --out planning.jsonl
    python -m benchmarks.planning.plot planning.jsonl

``tables`` writes the tables, ``meter`` delays and counts requests, ``turnstile`` measures the
index, ``peers`` the others; ``duck``, ``spark_delta`` and ``spark_iceberg`` are scripts that run in
the environments of the clients that they measure.
"""

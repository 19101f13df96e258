"""The second opinion: the same changes made in pandas, and both sides reduced to counts and sums of every column."""

from __future__ import annotations

import math
from typing import Any

Fingerprint = dict[str, float]
"""``rows``, and for every column ``column.count`` and, where it has one, ``column.sum`` (of lengths, for text)."""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "double", "float")


def of_spark(frame: Any) -> Fingerprint:
    """One aggregation over a Spark frame."""
    from pyspark.sql import functions as f

    parts = [f.count(f.lit(1)).alias("rows")]
    for name, type in frame.dtypes:
        parts.append(f.count(f.col(name)).alias(f"{name}.count"))
        if type in _NUMBERS:
            parts.append(f.sum(f.col(name)).alias(f"{name}.sum"))
        elif type == "string":
            parts.append(f.sum(f.length(f.col(name))).alias(f"{name}.sum"))
    return {name: value or 0 for name, value in frame.agg(*parts).first().asDict().items()}


def of_pandas(frame: Any) -> Fingerprint:
    """The same of a pandas frame."""
    from pandas.api.types import is_numeric_dtype

    found: Fingerprint = {"rows": len(frame)}
    for name in frame.columns:
        column = frame[name]
        found[f"{name}.count"] = int(column.count())
        if is_numeric_dtype(column):
            found[f"{name}.sum"] = float(column.sum())
        elif name != "time_hour":
            found[f"{name}.sum"] = float(column.str.len().sum())
    return found


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """What differs, one sentence each; empty when the two agree."""
    found = [f"{name} is on one side only" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        if not math.isclose(ours[name], theirs[name], rel_tol=1e-9, abs_tol=1e-6):
            found.append(f"{name} is {ours[name]}, pandas says {theirs[name]}")
    return found

"""Turnstile for PySpark: unmodified Delta Spark commits through a Turnstile server.

import turnstile_spark

spark = turnstile_spark.session()
lake = turnstile_spark.attach(spark, name="lake", uri="http://127.0.0.1:8750")
spark.sql("CREATE TABLE lake.default.t (id BIGINT)")
lake.table("default.t").head()
"""

from __future__ import annotations

import os
from typing import Any

from turnstile_spark.api import Api
from turnstile_spark.errors import TurnstileError
from turnstile_spark.http import Http
from turnstile_spark.lake import Lake, Table
from turnstile_spark.session import session

__all__ = ["INLINE_LIMIT", "Lake", "Table", "TurnstileError", "attach", "session"]

#: Bytes. Commits up to this size travel in the request; the server keeps larger inline commits out of the table's row.
INLINE_LIMIT = 24 * 1024


def attach(
    spark: Any,
    name: str = "lake",
    uri: str | None = None,
    *,
    catalog: str = "main",
    token: str | None = None,
    inline_limit: int = INLINE_LIMIT,
    deadline: float = 60.0,
) -> Lake:
    """Makes a catalog of a Turnstile server a catalog of Spark: ``name.namespace.table`` in SQL and DataFrames.

    ``spark``: a classic :class:`pyspark.sql.SparkSession` with Delta (see :func:`session`). ``name``: the catalog's name
    in Spark; attaching again under a name replaces the lake that had it. ``uri``: base URL of the server; default the
    environment variable ``TURNSTILE_URL``. ``catalog``: the catalog's name on the server. ``token``: bearer token;
    default ``TURNSTILE_TOKEN``. ``inline_limit``: bytes; commits up to this size travel in the request, larger ones as
    a staged file (0: all). ``deadline``: seconds that one call to the server may take, retries included.

    Tables are found when they are used; nothing is listed. The lake is in this session, in sessions made from it by
    ``spark.newSession()``, and in its streaming queries. Raises :class:`TurnstileError` ``TURNSTILE_SELF_TEST`` when an
    internal of Spark or Delta is not as expected, ``TURNSTILE_UNREACHABLE`` and ``TURNSTILE_NOT_PERMITTED`` when the
    server cannot be asked, and ``ValueError`` without ``uri``.
    """
    url = uri or os.environ.get("TURNSTILE_URL")
    if not url:
        raise ValueError("attach() needs the server's base URL: uri=..., or the environment variable TURNSTILE_URL")
    secret = token if token is not None else os.environ.get("TURNSTILE_TOKEN")
    api = Api(Http(url, secret or None, deadline), catalog)
    lake = Lake(spark, name, api, secret or None, inline_limit)
    lake.namespaces()  # fails here, with a clear message, when the server is not there
    lake.connect()
    return lake

"""Turnstile for PySpark: unmodified Delta Spark commits through a Turnstile server.

import turnstile_spark

spark = turnstile_spark.session()
lake = turnstile_spark.attach(spark, name="lake", uri="http://127.0.0.1:8750")
spark.sql("CREATE TABLE lake.default.t (id BIGINT)")
lake.table("default.t").head()
"""

from __future__ import annotations

import os
import re
from typing import Any

from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_http.http import REACH_S, Http
from turnstile_spark.errors import TransactionConflict, TransactionOutcomeUnknown, TurnstileError, as_turnstile_error
from turnstile_spark.lake import Lake, Table
from turnstile_spark.session import session
from turnstile_spark.transactions.scopes.scope import is_catalog_of_scopes

__all__ = [
    "INLINE_LIMIT",
    "Lake",
    "Table",
    "TransactionConflict",
    "TransactionOutcomeUnknown",
    "TurnstileError",
    "attach",
    "session",
]

#: Bytes. Commits up to this size travel in the request; the server keeps larger inline commits out
#: of the table's row.
INLINE_LIMIT = 24 * 1024
#: The name is part of Spark's configuration keys.
_LAKE_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: Catalogs that Spark has itself; ``delta.`/path` `` is a path.
_TAKEN = frozenset(("spark_catalog", "system", "session", "builtin", "global_temp", "delta"))


def attach(
    spark: Any,
    name: str = "lake",
    uri: str | None = None,
    *,
    catalog: str = "main",
    token: str | None = None,
    inline_limit: int = INLINE_LIMIT,
    deadline: float = 60.0,
    vended: bool | None = None,
) -> Lake:
    """Makes a catalog of a Turnstile server a catalog of Spark: ``name.namespace.table`` in SQL and
    DataFrames.

    ``spark``: a classic :class:`pyspark.sql.SparkSession` with Delta (see :func:`session`).
    ``name``: the catalog's name in Spark; attaching again under a name replaces the lake that had
    it. ``uri``: base URL of the server; default the environment variable ``TURNSTILE_URL``.
    ``catalog``: the catalog's name on the server. ``token``: bearer token; default
    ``TURNSTILE_TOKEN``. ``inline_limit``: bytes; commits up to this size travel in the request,
    larger ones as a staged file (0: all). ``deadline``: seconds that one call to the server may
    take, retries included. ``vended``: whether tables on S3 are opened with credentials from the
    server, if it vends any; default: unless the session has an access key or a credential provider
    of its own.

    Tables are found when they are used; nothing is listed. The lake is in this session, in sessions
    made from it by ``spark.newSession()``, and in its streaming queries. Raises
    :class:`TurnstileError` ``TURNSTILE_SELF_TEST`` when an internal of Spark or Delta is not as
    expected, ``TURNSTILE_UNREACHABLE`` when nothing answers at ``uri`` for four seconds,
    ``TURNSTILE_NOT_PERMITTED`` when the server may not be asked, and ``ValueError`` without
    ``uri``, for one that is no URL, and for a name or catalog that can be none.
    """
    url = uri or os.environ.get("TURNSTILE_URL")
    if not url:
        raise ValueError("attach() needs the server's base URL: uri=..., or the environment variable TURNSTILE_URL")
    if not _LAKE_NAME.fullmatch(name) or name.lower() in _TAKEN or is_catalog_of_scopes(name):
        raise ValueError(
            f"attach(name={name!r}): use letters, digits, '_' and '-', and none of {', '.join(sorted(_TAKEN))}, "
            f"'...__scope'"
        )
    secret = token if token is not None else os.environ.get("TURNSTILE_TOKEN")
    try:
        api = Api(Http(url, secret or None, deadline), catalog)
    except ApiError as e:
        raise ValueError(f"attach(catalog={catalog!r}): {e}") from None
    try:
        api.http.reach(min(REACH_S, deadline))  # fails here, with a clear message, when no server is there
    except ApiError as e:
        raise as_turnstile_error(e) from None
    lake = Lake(spark, name, api, secret or None, inline_limit=inline_limit, vended=vended)
    lake.namespaces()  # or when it may not be asked
    lake.connect()
    return lake

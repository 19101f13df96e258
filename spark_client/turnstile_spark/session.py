"""A Spark session with everything a lake needs: packages, extensions, sensible options."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

DELTA_VERSION = "4.4.0"
#: Spark's releases that are tried (docs/clients.md), each with the Hadoop in its jars:
#: hadoop-aws must be of the same version.
HADOOP = {"4.0": "3.4.1", "4.1": "3.4.2", "4.2": "3.5.0"}
_SDK = "2.35.4"
#: In the place of hadoop-aws's dependency, the whole AWS SDK (686 MB): the modules that S3A uses
#: (19 MB).
SDK_MODULES = (
    *(f"software.amazon.awssdk:{m}:{_SDK}" for m in ("s3", "s3-transfer-manager", "sts", "apache-client")),
    f"software.amazon.awssdk:netty-nio-client:{_SDK}",
)
#: Left out: the SDK bundle, and what PySpark has in its own jars (two versions of netty or slf4j do
#: not mix).
EXCLUDED = (
    "software.amazon.awssdk:bundle",
    "org.slf4j:slf4j-api",
    *(
        f"io.netty:netty-{m}"
        for m in ("buffer", "codec", "codec-base", "codec-compression", "codec-http", "codec-http2", "common",
                  "handler",
                  "resolver", "transport", "transport-classes-epoll", "transport-native-unix-common")
    ),
)  # fmt: skip

OPTIONS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.commitLock.enabled": "false",
    "spark.databricks.delta.maxCommitAttempts": "20",
    # All tables of a lake are Delta tables: saveAsTable("lake...") then needs no format("delta").
    "spark.sql.sources.default": "delta",
    # These two keep CACHE TABLE in the session: it would otherwise work in a clone of it, which has
    # no lake.
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
}
_S3A = "spark.hadoop.fs.s3a."
#: An endpoint that is down fails a statement within seconds; by S3A's own values (7 times 5
#: attempts, 30 s each) it takes minutes. create, mkdir: S3A does not look first whether something
#: is where a file or folder is created.
TUNING = {
    _S3A + "connection.maximum": "64",
    _S3A + "performance.flags": "create,mkdir",
    _S3A + "attempts.maximum": "3",
    _S3A + "retry.limit": "3",
    _S3A + "retry.interval": "300ms",
    _S3A + "connection.establish.timeout": "5s",
}
#: For a few cores and small tables: about ten times faster than Spark's defaults, which are for
#: clusters.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def session(
    app: str = "turnstile",
    s3: str | Mapping[str, str] | bool | None = None,
    small: bool = False,
    master: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Builds (or gets) a :class:`pyspark.sql.SparkSession` ready for
    :func:`turnstile_spark.attach`.

    ``app``: application name. ``s3``: True adds Hadoop's S3A with Spark's usual ways to find
    credentials; a URL is an S3-compatible endpoint (path-style access); a mapping may have
    ``endpoint``, ``access_key``, ``secret_key``, ``session_token``, ``region``. ``small``: options
    for a laptop or a test. ``master``: Spark master URL. ``options``: more Spark options, which win
    over all others. Packages come from the Ivy cache or Maven. Raises Spark's errors, and
    ``ValueError`` if this process has a session already that lacks some of these settings: packages
    are loaded, and S3 is set up, when a JVM starts.
    """
    import pyspark
    from pyspark.sql import SparkSession

    settings = dict(OPTIONS)
    packages = packages_of(pyspark.__version__, s3=bool(s3))
    if small:
        settings.update(SMALL)
    settings["spark.jars.excludes"] = ",".join(EXCLUDED)
    if s3:
        settings.update(_s3a(s3))
    user_options = dict(options or {})
    packages += [p for p in user_options.pop("spark.jars.packages", "").split(",") if p]
    settings["spark.jars.packages"] = ",".join(packages)
    settings.update(user_options)
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None and running._sc._jsc is not None and (lacking := _lacking(running, settings, s3=bool(s3))):
        raise ValueError(
            f"session({'s3=...' if s3 else ''}): this process has a Spark session that {lacking}. Ask for all at the "
            f"first session(), or "
            "spark.stop() it before"
        )
    builder = SparkSession.builder.appName(app)
    if master:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    _log_no_errors_twice()
    return builder.getOrCreate()


def _log_no_errors_twice() -> None:
    """PySpark 4 logs each error that it raises, as one line of JSON with the whole stack trace."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _lacking(running: Any, settings: Mapping[str, str], *, s3: bool) -> str | None:
    """The settings that a running session lacks, and cannot get any more; None for none."""
    find = running._jvm.org.apache.spark.util.Utils.classIsLoadable
    needed = {
        "io.delta.tables.DeltaTable": "Delta",
        **({"org.apache.hadoop.fs.s3a.S3AFileSystem": "S3A"} if s3 else {}),
    }
    if missing := [what for name, what in needed.items() if not find(name)]:
        return f"was started without the packages of {' and '.join(missing)}"
    conf = running.sparkContext.getConf()
    for key, value in settings.items():
        if key.startswith(_S3A) and key not in TUNING and conf.get(key, "") != value:
            return f"has another {key.removeprefix('spark.hadoop.')}, or none"
    return None


def packages_of(pyspark_version: str, *, s3: bool) -> list[str]:
    """Returns the Maven packages of a session: Delta for that PySpark, and the packages for S3.

    Raises ``ValueError`` for a PySpark that is none of ``HADOOP``.
    """
    release = ".".join(pyspark_version.split(".")[:2])
    if release not in HADOOP:
        raise ValueError(
            f"turnstile_spark does not know PySpark {pyspark_version}: install one of {', '.join(HADOOP)}, "
            "or build the session yourself and attach it"
        )
    delta = f"io.delta:delta-spark_{release}_2.13:{DELTA_VERSION}"
    return [delta, *((f"org.apache.hadoop:hadoop-aws:{HADOOP[release]}", *SDK_MODULES) if s3 else ())]


def _s3a(s3: str | Mapping[str, str] | bool) -> dict[str, str]:
    values = {"endpoint": s3} if isinstance(s3, str) else dict(s3) if isinstance(s3, Mapping) else {}
    key = _S3A
    settings = dict(TUNING)
    if "endpoint" in values:
        endpoint = values["endpoint"]
        settings[key + "endpoint"] = endpoint
        settings[key + "path.style.access"] = "true"
        settings[key + "connection.ssl.enabled"] = str(endpoint.startswith("https")).lower()
    if "region" in values or "endpoint" in values:
        settings[key + "endpoint.region"] = values.get("region", "us-east-1")
    if "access_key" in values:
        settings[key + "access.key"] = values["access_key"]
        settings[key + "secret.key"] = values["secret_key"]
        provider = "SimpleAWSCredentialsProvider"
        if "session_token" in values:
            settings[key + "session.token"] = values["session_token"]
            provider = "TemporaryAWSCredentialsProvider"
        settings[key + "aws.credentials.provider"] = f"org.apache.hadoop.fs.s3a.{provider}"
    return settings

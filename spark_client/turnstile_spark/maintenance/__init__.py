"""Maintenance of the data files of a table (docs/maintenance.md).

rewrites  compaction, Z-order, clustering, and purging deletion vectors
command   ``python -m turnstile_spark.maintenance``
"""

from turnstile_http.maintenance import Progress, Rewrite
from turnstile_spark.maintenance.command import main
from turnstile_spark.maintenance.rewrites import ATTEMPTS, TARGET_BYTES, Operation, rewrite

__all__ = ["ATTEMPTS", "TARGET_BYTES", "Operation", "Progress", "Rewrite", "main", "rewrite"]

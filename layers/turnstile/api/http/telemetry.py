"""One structured log line and one EMF line a request."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

NAMESPACE = "Turnstile"


class Telemetry:
    """Writes what happened to a request.

    Args:
        service: the function's name; a dimension of every metric.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._logger = Logger(service=service, location=None)  # always this line
        self._cold = True

    def record(self, operation: str, status: int, duration_ms: float, fault: BaseException | None, **more: Any) -> None:
        """Log the request and count it. ``fault`` is what was not foreseen; it is logged with its traceback.

        Only few values of ``operation`` exist (route templates), so that metrics stay cheap.
        """
        write = self._logger.error if fault is not None else self._logger.info
        write(
            f"{operation} {status}",
            exc_info=fault,
            operation=operation,
            status=status,
            duration_ms=round(duration_ms, 2),
            cold_start=self._cold,
            **more,
        )
        self._cold = False
        metrics = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
        metrics.add_dimension("operation", operation)
        metrics.add_metric("duration", MetricUnit.Milliseconds, duration_ms)
        metrics.add_metric("refused", MetricUnit.Count, 1 if 400 <= status < 500 else 0)
        metrics.add_metric("failed", MetricUnit.Count, 1 if status >= 500 else 0)
        metrics.flush_metrics()

"""Log lines of a server's processes: one JSON object each, on standard error."""

from __future__ import annotations

import logging
import os

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter


def configure(process: str) -> None:
    """Sends the log lines of this process to standard error; ``TURNSTILE_LOG_LEVEL`` says from
    which level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LambdaPowertoolsFormatter(service=f"turnstile-{process}"))
    logging.basicConfig(handlers=[handler], level=os.environ.get("TURNSTILE_LOG_LEVEL", "WARNING"), force=True)

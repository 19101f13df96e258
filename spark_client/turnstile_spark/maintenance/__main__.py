"""Runs the command line: ``python -m turnstile_spark.maintenance``."""

from __future__ import annotations

import sys

from turnstile_spark.maintenance.command import main

if __name__ == "__main__":
    sys.exit(main())

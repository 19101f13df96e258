"""Figures of a server's processes are exported however its modules were imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
{first}
from turnstile_server.telemetry import metrics
from turnstile_server.telemetry.conflicts import ConflictLog
metrics.start(SimpleNamespace(runtime=sys.argv[1]))
metrics.RequestMetrics(ConflictLog(Path(sys.argv[1]) / "conflicts")).record("GET /v1/catalogs", 200, 1.5, None)
sys.stdout.buffer.write(metrics.exposition())
"""


def exposition(first: str, folder: Path) -> str:
    program = [sys.executable, "-c", PROGRAM.format(first=first), str(folder)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout


def test_a_request_is_counted_also_where_the_library_was_imported_before(tmp_path: Path) -> None:
    """The command ``turnstile serve`` imports all commands before it starts a server in the same
    process."""
    for number, first in enumerate(("", "import prometheus_client", "import turnstile_cli.main")):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert 'turnstile_requests_total{operation="GET /v1/catalogs",status="200"} 1.0' in exposition(first, folder), (
            first
        )

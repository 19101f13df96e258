"""Starts functions by AWS's runtime client and says how long each start takes, and how much of a
processor, until it asks for its first event.

It runs in the root of ``root.py``, by the Python of its environment ``lambda``, and imports nothing
of this project. Its one argument is a JSON object; it prints another, from each function to the
milliseconds of CPU and of time of each run:

    {"functions": {NAME: {"folder": ..., "handler": ..., "layers": [...]}}, "runs": 9,
     "variables": {...}, "secret": "..."}

The server that gives events also answers for Parameter Store, so that a start with a secret takes
its client and its request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LONGEST_S = 60


class _Start:
    """One start: its process, and its cost."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.cpu_ms = 0.0
        self.began = 0.0
        self.ms = 0.0
        self.problem = ""
        self.over = threading.Event()


def _handler(start: _Start, secret: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

        def do_GET(self) -> None:
            """The function asks for its first event, and gets none."""
            assert start.process is not None
            start.ms = (time.monotonic() - start.began) * 1000
            start.cpu_ms = (
                time.clock_gettime((~start.process.pid << 3) | 2) * 1000
            )  # as clock_getcpuclockid(3) makes it
            start.over.set()
            self.close_connection = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/":
                self._send(
                    json.dumps({"Parameter": {"Name": "secret", "Type": "SecureString", "Value": secret}}).encode()
                )
                return
            start.problem = body.decode(errors="replace")[:2000]
            self._send(b"{}")
            start.over.set()

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def cost(function: dict[str, Any], variables: dict[str, str], secret: str) -> tuple[float, float]:
    """Returns the milliseconds of CPU and of time of one start. Raises RuntimeError if the function
    fails."""
    start = _Start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(start, secret))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    environment = {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/root", **variables, "AWS_LAMBDA_RUNTIME_API": address,
        "AWS_ENDPOINT_URL_SSM": f"http://{address}", "LAMBDA_TASK_ROOT": function["folder"],
        "PYTHONPATH": ":".join(function["layers"]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    words = [sys.executable, "-m", "awslambdaric", function["handler"]]
    start.began = time.monotonic()
    start.process = subprocess.Popen(
        words, cwd=function["folder"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        start.over.wait(LONGEST_S)
        if start.problem or not start.over.is_set():
            raise RuntimeError(start.problem or f"the function did not start in {LONGEST_S} s")
    finally:
        start.process.kill()
        start.process.wait()
        server.shutdown()
        server.server_close()
    return start.cpu_ms, start.ms


def main() -> None:
    """Runs all functions in turns, so that other load of the machine falls on each alike."""
    given = json.loads(sys.argv[1])
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in given["functions"]}
    for _ in range(given["runs"]):
        for name, function in given["functions"].items():
            variables = {**given["variables"], "AWS_LAMBDA_FUNCTION_NAME": name, "POWERTOOLS_SERVICE_NAME": name}
            taken[name].append(cost(function, variables, given["secret"]))
    print(json.dumps(taken))


if __name__ == "__main__":
    main()

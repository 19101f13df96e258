"""Runs functions of LocalEmu as processes, by AWS's own runtime client, where LocalEmu itself would
want Docker.

This module runs in LocalEmu's process, as its plug-in ``process`` (``emulator.py`` installs it),
and imports nothing of this project. For each sandbox it serves the runtime API, to which
``awslambdaric`` comes for events. Beside that it writes down how long each start and each call
took, and how much of a processor: ``$TURNSTILE_FIGURES``, a JSON object a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import rights
from localemu import config
from localemu.services.lambda_.invocation.lambda_models import InvocationResult
from localemu.services.lambda_.invocation.layer_mounter import _attached_layers, _unzip_layer_to_cache
from localemu.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localemu.services.lambda_.invocation.runtime_executor import RuntimeExecutor

rights.install()

HOST = "127.0.0.1"
START_S = 60.0
LONGEST_S = 900
_WRITING = threading.Lock()
_UNPACKING = threading.Lock()


class Call(NamedTuple):
    """An event on its way to the function, and the place of its answer."""

    id: str
    headers: dict[str, str]
    payload: bytes
    answer: Future[tuple[bytes, bool]]


class Sandbox:
    """A process of ``awslambdaric`` and the runtime API that it asks. One call at a time."""

    def __init__(self, words: list[str], folder: str, variables: dict[str, str], log: Path) -> None:
        self._calls: queue.Queue[Call | None] = queue.Queue()
        self._pending: dict[str, Call] = {}
        self._stopping = False
        self.calls = 0
        self.started: Future[None] = Future()
        self._server = ThreadingHTTPServer((HOST, 0), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        environment = {**variables, "AWS_LAMBDA_RUNTIME_API": f"{HOST}:{self._server.server_port}"}
        with log.open("ab") as out:
            self._process = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out)
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def cpu_ms(self) -> float | None:
        """Processor time of the process so far; None of one that ended."""
        clock = (~self._process.pid << 3) | 2  # as clock_getcpuclockid(3) makes it
        try:
            return time.clock_gettime(clock) * 1000
        except OSError:
            return None

    def call(self, call: Call, seconds: float) -> tuple[bytes, bool]:
        """The function's answer, and whether it is an error. Raises TimeoutError; then the process
        ends."""
        self.calls += 1
        self._pending[call.id] = call
        self._calls.put(call)
        try:
            return call.answer.result(timeout=seconds)
        except TimeoutError:
            self._process.kill()
            raise

    def stop(self) -> None:
        """The process ends, after the call that it is busy with: new code does not interrupt what
        old code has begun."""
        self._stopping = True
        self._calls.put(None)
        if not self._pending:
            self._process.terminate()

    def next(self) -> Call | None:
        """The next event for the process; the first request for one means that it has started."""
        if not self.started.done():
            self.started.set_result(None)
        return self._calls.get()

    def finish(self, call_id: str, body: bytes, *, failed: bool) -> None:
        call = self._pending.pop(call_id, None)
        if call is not None and not call.answer.done():
            call.answer.set_result((body, failed))
        if self._stopping and not self._pending:
            self._process.terminate()

    def fail_start(self, body: bytes) -> None:
        if not self.started.done():
            self.started.set_exception(RuntimeError(body.decode(errors="replace")[:2000]))

    def _watch(self) -> None:
        """When the process ends, so do those that wait for it."""
        code = self._process.wait()
        self.fail_start(f"the process of the function ended with {code}".encode())
        for call_id in list(self._pending):
            ended = {"errorType": "Runtime.ExitError", "errorMessage": f"Runtime exited with {code}"}
            self.finish(call_id, json.dumps(ended).encode(), failed=True)
        self._server.shutdown()
        self._server.server_close()


def _handler_of(sandbox: Sandbox) -> type[BaseHTTPRequestHandler]:
    """A handler of the runtime API of ``sandbox``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # of a process that was ended
                super().handle()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

        def do_GET(self) -> None:
            call = sandbox.next()
            if call is None:
                self._answer(410, b"")
            else:
                self._answer(200, call.payload, call.headers)

        def do_POST(self) -> None:
            body = self._body()
            *_, call_id, what = self.path.split("/")
            if self.path.endswith("/init/error"):
                sandbox.fail_start(body)
            elif what in ("response", "error"):
                sandbox.finish(call_id, body, failed=what == "error")
            self._answer(202, b"{}")

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _layers(function_version: Any) -> list[str]:
    """Folders of the unpacked layers of a function. Lambda puts them over each other; here each is
    a part of the path, the last first."""
    with _UNPACKING:
        return [str(_unzip_layer_to_cache(layer)) for layer in reversed(_attached_layers(function_version))]


class ProcessExecutor(RuntimeExecutor):
    """One sandbox of a function. A process that ended, for a time-out say, is replaced at the next
    call, as on Lambda."""

    def __init__(self, id: str, function_version: Any) -> None:
        super().__init__(id, function_version)
        self._variables: dict[str, str] = {}
        self._sandbox: Sandbox | None = None
        self._service = function_version.id.function_name
        self._log = Path(os.environ["TURNSTILE_LOGS"]) / f"{self._service}-{id[:8]}.log"

    @classmethod
    def prepare_version(cls, function_version: Any) -> None:
        function_version.config.code.prepare_for_execution()
        _layers(function_version)

    @classmethod
    def cleanup_version(cls, function_version: Any) -> None:
        """Leaves the files to the end of the whole."""

    def get_address(self) -> str:
        return HOST

    def get_endpoint_from_executor(self) -> str:
        return HOST

    def get_runtime_endpoint(self) -> str:
        return f"http://{HOST}:{config.GATEWAY_LISTEN[0].port}/_localemu_lambda/{self.id}"

    def get_logs(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self, env_vars: dict[str, Any]) -> None:
        self._variables = {name: str(value) for name, value in env_vars.items()}
        self._service = self._variables.get("POWERTOOLS_SERVICE_NAME", self._service)
        self._log = self._log.with_name(f"{self._service}-{self.id[:8]}.log")
        self._begin()

    def _begin(self) -> Sandbox:
        """Starts the process, and waits until it asks for its first event."""
        task = str(self.function_version.config.code.get_unzipped_code_location())
        variables = self._variables | {
            "LAMBDA_TASK_ROOT": task, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": os.environ["HOME"],
            "PYTHONPATH": ":".join(f"{layer}/python" for layer in _layers(self.function_version)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        python = os.environ["TURNSTILE_RUNTIME_PYTHON"]
        began = time.monotonic()
        sandbox = Sandbox([python, "-m", "awslambdaric", variables["_HANDLER"]], task, variables, self._log)
        self._sandbox = sandbox
        sandbox.started.result(timeout=START_S)
        self._write("start", began, sandbox.cpu_ms())
        return sandbox

    def stop(self) -> None:
        if self._sandbox is not None:
            self._sandbox.stop()

    def invoke(self, payload: dict[str, Any], function_timeout: int | None = None) -> InvocationResult:
        sandbox = self._sandbox
        if sandbox is None or not sandbox.is_alive:
            sandbox = self._begin()
        seconds = function_timeout or LONGEST_S
        headers = {
            "Lambda-Runtime-Aws-Request-Id": payload["invoke-id"],
            "Lambda-Runtime-Invoked-Function-Arn": payload["invoked-function-arn"],
            "Lambda-Runtime-Trace-Id": payload["trace-id"],
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + seconds) * 1000)),
        }
        call = Call(payload["invoke-id"], headers, payload["payload"].encode(), Future())
        event = "call" if sandbox.calls else "first call"
        began = time.monotonic()
        cpu_ms = sandbox.cpu_ms() or 0.0
        try:
            body, failed = sandbox.call(call, seconds)
        except TimeoutError:
            said = {"errorType": "Sandbox.Timedout", "errorMessage": f"Task timed out after {seconds}.00 seconds"}
            body = json.dumps(said).encode()
            failed = True
        after_ms = sandbox.cpu_ms()
        self._write("failed call" if failed else event, began, None if after_ms is None else after_ms - cpu_ms)
        return InvocationResult(payload["invoke-id"], body, is_error=failed, logs=self.get_logs()[-4096:])

    def _write(self, event: str, began: float, cpu_ms: float | None) -> None:
        taken_ms = (time.monotonic() - began) * 1000
        figure = {"function": self._service, "sandbox": self.id[:8], "event": event, "ms": taken_ms, "cpu_ms": cpu_ms}
        with _WRITING, Path(os.environ["TURNSTILE_FIGURES"]).open("a") as out:
            out.write(json.dumps(figure) + "\n")


class ProcessPlugin(RuntimeExecutorPlugin):
    """What LocalEmu loads for ``LAMBDA_RUNTIME_EXECUTOR=process``."""

    name = "process"

    def load(self, *_: Any, **__: Any) -> type[RuntimeExecutor]:
        return ProcessExecutor

"""Histories of clients, and porcupine's judgement of them: is there one order in which every answer
is right?"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import msgspec
import pytest

CHECKER: Final = Path(__file__).with_name("checker")
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="PORCUPINE NEEDS GO: histories are not checked")


class Operation(msgspec.Struct, rename={"returned": "return"}, kw_only=True):
    """What a client asked and was told. Times in ns of one clock; ``returned`` 0 when it never
    heard.

    ``op`` is commit or load; ``version`` 0 asks for the next one; ``result`` ok, conflict or
    unknown; ``got`` the version that the transaction became, or latest; ``last`` the latest
    version's transaction, for a load.
    """

    client: int
    table: str
    op: str
    call: int
    returned: int = 0
    version: int = 0
    txn: str = ""
    result: str = "unknown"
    got: int = 0
    last: str = ""


@dataclass
class History:
    """Operations of many threads, in no order. ``contents``: the bytes that a transaction has to be
    published with, if it is ratified."""

    operations: list[Operation] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, client: int, table: str, op: str, *, version: int = 0, txn: str = "") -> Operation:
        """An operation that is being asked now; until ``told`` its outcome is unknown."""
        made = Operation(client=client, table=table, op=op, call=time.monotonic_ns(), version=version, txn=txn)
        with self._lock:
            self.operations.append(made)
        return made

    @property
    def answers(self) -> int:
        """How many operations were told an outcome."""
        return sum(operation.result != "unknown" for operation in self.operations)


def told(operation: Operation, result: str, got: int, last: str = "") -> None:
    """The answer has come."""
    operation.returned = time.monotonic_ns()
    operation.result = result
    operation.got = got
    operation.last = last


@dataclass(frozen=True)
class Judgement:
    """``linearizable`` for every table; ``said`` a line a table."""

    linearizable: bool
    said: str


def judge(operations: list[Operation], timeout: str = "120s") -> Judgement:
    """Ask porcupine.

    Raises:
        RuntimeError: it could not decide in time, or could not be run.
    """
    lines = b"\n".join(msgspec.json.encode(operation) for operation in operations)
    ran = subprocess.run([_built(), "-timeout", timeout], input=lines, capture_output=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"the checker ended with {ran.returncode}: {ran.stdout.decode()} {ran.stderr.decode()}")
    return Judgement(ran.returncode == 0, ran.stdout.decode())


@cache
def _built() -> str:
    binary = str(Path(mkdtemp(prefix="histories-"), "checker"))
    built = subprocess.run(["go", "build", "-o", binary, "."], cwd=CHECKER, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"PORCUPINE CANNOT BE BUILT, histories are not checked: {built.stderr[-500:]}")
    return binary

"""Starts LocalEmu, with one request for rows of DynamoDB at a time.

LocalEmu hands requests for rows to moto, in threads and without a lock. An update reads its row,
judges the condition and writes the row in three steps; a transaction that fails puts back the whole
table as it was when the transaction began. So updates that come meanwhile are lost. DynamoDB
carries out one request after the other on each row, and its stream has them in that order. Two
locks make LocalEmu do the same: one around each request to moto, and one around each write of rows
together with the records of its stream.

This module is the program of LocalEmu's process (``emulator.py``) and imports nothing of this
project.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

WRITES = ("put_item", "update_item", "delete_item", "batch_write_item", "transact_write_items")
"""Methods of LocalEmu's provider. Inside of them it asks itself for rows, in other threads: so
methods that read are under the lock of moto's requests alone."""


def serialize(owner: type, names: tuple[str, ...]) -> None:
    """Puts one lock around methods of a class. Call it before an object of the class exists."""
    lock = threading.RLock()
    for name in names:
        method = getattr(owner, name)

        @functools.wraps(method)
        def request(*given: Any, method: Any = method, **named: Any) -> Any:
            with lock:
                return method(*given, **named)

        setattr(owner, name, request)


def main() -> None:
    """Starts LocalEmu."""
    from localemu.runtime.main import main as run
    from localemu.services.dynamodb.provider import DynamoDBProvider
    from moto.dynamodb.responses import DynamoHandler

    serialize(DynamoHandler, ("call_action",))
    serialize(DynamoDBProvider, WRITES)
    run()


if __name__ == "__main__":
    main()

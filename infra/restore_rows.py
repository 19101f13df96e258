"""Copies the rows of one DynamoDB table into another: a stack's own tables get the rows that
point-in-time recovery restored.

    python infra/restore_rows.py --from turnstile-refs-restored --into turnstile-RefsTable-1A2B3C
    python infra/restore_rows.py --from turnstile-refs-restored --into turnstile-RefsTable-1A2B3C
    --apply

Recovery makes a new table, without the stream, time to live and protection of the old one, and a
stack cannot be told to use it. So its rows go back into the table that the stack knows. Without
``--apply`` nothing is written. Equal rows are not written again, so it may be repeated at will, and
killed: the next run continues. docs/operations.md says which writers must stop meanwhile.
"""

# ruff: noqa: INP001 - a script, run by its path

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import boto3
from botocore.config import Config

from turnstile.store.ports import in_batches

Item = dict[str, Any]
"""A row as DynamoDB says it: ``{"key": {"S": "..."}, ...}``."""

READ: Final = 100
"""Keys of one BatchGetItem, at most."""

WRITTEN: Final = 25
"""Rows of one BatchWriteItem, at most."""

PAUSES: Final = (0.05, 10.0)
"""Seconds: the first wait for rows that were turned away, and the longest."""


@dataclass
class Counts:
    """Rows that are alike, that were (or are to be) written, and removed."""

    same: int = 0
    put: int = 0
    removed: int = 0


class Table:
    """One table, by rows. Throttled requests are sent again by the client, rows that a batch left
    out by this class."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name
        self.keys: tuple[str, ...] = tuple(
            part["AttributeName"] for part in client.describe_table(TableName=name)["Table"]["KeySchema"]
        )

    def key(self, item: Item) -> Item:
        """The key of a row."""
        return {name: item[name] for name in self.keys}

    def rows(self, *, keys_only: bool = False) -> Iterator[Item]:
        """All rows, consistently read."""
        asked: dict[str, Any] = {"TableName": self.name, "ConsistentRead": True}
        if keys_only:
            names = {f"#{position}": name for position, name in enumerate(self.keys)}
            asked |= {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        for page in self._client.get_paginator("scan").paginate(**asked):
            yield from page["Items"]

    def find(self, keys: Sequence[Item]) -> dict[str, Item]:
        """The rows with these keys, at most ``READ``, by ``name_of`` their key."""
        rows: dict[str, Item] = {}
        left: Any = {self.name: {"Keys": list(keys), "ConsistentRead": True}}
        for _ in _tries():
            answer = self._client.batch_get_item(RequestItems=left)
            for item in answer["Responses"].get(self.name, ()):
                rows[name_of(self.key(item))] = item
            left = answer.get("UnprocessedKeys")
            if not left:
                break
        return rows

    def write(self, requests: list[Item]) -> None:
        """Put and delete rows, in no order."""
        for some in in_batches(requests, WRITTEN):
            left: Any = {self.name: list(some)}
            for _ in _tries():
                left = self._client.batch_write_item(RequestItems=left).get("UnprocessedItems")
                if not left:
                    break


def name_of(key: Item) -> str:
    """A key as a text."""
    return json.dumps(key, sort_keys=True)


def restore(source: Table, target: Table, *, keep: bool, apply: bool) -> Counts:
    """Make ``target`` hold the rows of ``source``; with ``keep`` in addition to its own rows, else
    instead of them."""
    counts = Counts()
    for rows in in_batches(source.rows(), READ):
        there = target.find([source.key(row) for row in rows])
        changed = [row for row in rows if there.get(name_of(source.key(row))) != row]
        counts.put += len(changed)
        counts.same += len(rows) - len(changed)
        if apply:
            target.write([{"PutRequest": {"Item": row}} for row in changed])
    for keys in () if keep else in_batches(target.rows(keys_only=True), READ):
        wanted = source.find(keys)
        lost = [key for key in keys if name_of(key) not in wanted]
        counts.removed += len(lost)
        if apply:
            target.write([{"DeleteRequest": {"Key": key}} for key in lost])
    return counts


def _tries() -> Iterator[None]:
    """Retries with longer and longer pauses: a refused write changed nothing, and an incomplete
    copy is useless."""
    pause, longest = PAUSES
    while True:
        yield
        time.sleep(random.uniform(0, pause))  # noqa: S311  (spreads requests, protects nothing)
        pause = min(2 * pause, longest)


def main(arguments: list[str] | None = None) -> int:
    """The command. Exit code 2: it cannot be done as it was asked for."""
    options = argparse.ArgumentParser(description="Give a DynamoDB table the rows of another one.")
    options.add_argument("--from", dest="source", required=True, metavar="TABLE", help="the restored table")
    options.add_argument("--into", dest="target", required=True, metavar="TABLE", help="the stack's own table")
    options.add_argument("--keep", action="store_true", help="remove no row that only --into has: for objs")
    options.add_argument("--apply", action="store_true", help="write; without it only list the rows to write")
    asked = options.parse_args(arguments)
    client = boto3.client("dynamodb", config=Config(retries={"mode": "standard", "max_attempts": 10}))
    source = Table(client, asked.source)
    target = Table(client, asked.target)
    if source.keys != target.keys or source.name == target.name:
        print(
            f"{source.name} {source.keys} and {target.name} {target.keys} are not two tables of one kind",
            file=sys.stderr,
        )
        return 2
    counts = restore(source, target, keep=asked.keep, apply=asked.apply)
    did = "" if asked.apply else "would be "
    print(f"{counts.same} rows are alike, {counts.put} {did}written, {counts.removed} {did}removed in {target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares every published version with the ratified bytes (invariants I1, I2 and I4).

The publisher wrote the bytes in ``_delta_log`` from the coordinator's copy. They are compared with
the file under ``_staged_commits`` that the *client* wrote; the coordinator names the ratified file
of each version. So the two sides share only the decision.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

LOG = "_delta_log"
STAGED = "_delta_log/_staged_commits"


@dataclass
class Ledger:
    """The audit of one table. ``lags`` are ms from a commit's own timestamp, which its writer takes
    just before it proposes, to the published file."""

    table: str
    latest: int
    proposals: int = 0
    equal: int = 0
    lags: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class LogFolder:
    """A table's files through Hadoop, so that ``file:`` and ``s3a:`` are the same."""

    def __init__(self, spark: Any, location: str) -> None:
        self._jvm = spark._jvm  # noqa: SLF001 - PySpark has no public way to Hadoop's FileSystem
        self._root = location.rstrip("/")
        conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._fs = self._jvm.org.apache.hadoop.fs.Path(self._root).getFileSystem(conf)

    def _path(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{relative}")

    def list(self, folder: str) -> dict[str, int]:
        """Name -> modification time (ms) of the commit files in a folder."""
        path = self._path(folder)
        if not self._fs.exists(path):
            return {}
        statuses = self._fs.listStatus(path)
        files = {status.getPath().getName(): status.getModificationTime() for status in statuses if status.isFile()}
        return {name: modified for name, modified in files.items() if name[:20].isdigit() and name.endswith(".json")}

    def read(self, relative: str) -> bytes:
        stream = self._fs.open(self._path(relative))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()


def audit(spark: Any, lake: Any, table: str, *, patience: float = 60.0) -> Ledger:
    """Wait until everything is published, then compare.

    Args:
        table: ``namespace.table``.
        patience: seconds to wait for the publisher.
    """
    head = lake.table(table).head()
    until = time.monotonic() + patience
    while head.floor < head.latest and time.monotonic() < until:
        time.sleep(0.2)
        head = lake.table(table).head()
    ledger = Ledger(table, head.latest)
    if head.floor < head.latest:
        ledger.problems.append(f"published up to {head.floor} of {head.latest} after {patience:.0f} s")
    folder = LogFolder(spark, head.location.replace("s3://", "s3a://", 1))
    published = {int(name[:20]): modified for name, modified in folder.list(LOG).items() if len(name) == 25}
    if sorted(published) != list(range(head.latest + 1)):
        ledger.problems.append(f"_delta_log holds versions {sorted(published)}, not 0 to {head.latest}")
    staged = folder.list(STAGED)
    ledger.proposals = len(staged)
    ratified: dict[int, list[str]] = {}
    for name in staged:
        answer = lake.api.outcome(head.table_id, int(name[:20]), None, name)
        if answer.outcome == "ratified":
            ratified.setdefault(int(name[:20]), []).append(name)
    for version in range(1, head.latest + 1):
        winners = ratified.get(version, [])
        if len(winners) != 1:
            ledger.problems.append(f"version {version} has {len(winners)} ratified files, not one")
            continue
        content = folder.read(f"{LOG}/{version:020d}.json")
        if content != folder.read(f"{STAGED}/{winners[0]}"):
            ledger.problems.append(f"version {version} differs from {winners[0]}")
            continue
        ledger.equal += 1
        info = json.loads(content[: content.index(b"\n")])["commitInfo"]
        ledger.lags.append(max(0.0, published[version] - info["inCommitTimestamp"]))
    return ledger

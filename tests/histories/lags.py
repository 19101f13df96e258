"""How long ratified versions of a lake of files take to be published, as seen from outside, and
whether they come in order (I4).

A thread looks at the HEADs and the logs of some tables every few milliseconds. A version is taken
to be ratified when the last look began that did not see it, so a lag is too long by the time
between two looks, and never too short. It is published when its name is in the log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from turnstile.delta.core.head import TableHead
from turnstile.store.core.names import published_path
from turnstile.store.ports import World

LOOK_S: Final = 0.025


@dataclass(frozen=True)
class Lag:
    """A version that was published: when it was ratified at the earliest, and when its name came,
    by the wall clock."""

    table: str
    version: int
    ratified_ms: float
    published_ms: float

    @property
    def ms(self) -> float:
        """0 at least: the time of a file is that of the kernel's last tick, milliseconds ago."""
        return max(self.published_ms - self.ratified_ms, 0.0)


@dataclass
class _Seen:
    """What the looks at a table have seen."""

    root: Path
    looked_ms: float
    latest: int
    published: int
    files: dict[int, tuple[int, float]]
    ratified: dict[int, float]

    def stat(self, version: int) -> tuple[int, float] | None:
        """The file of a version, and when it got its name; None while there is none."""
        try:
            stat = (self.root / published_path(version)).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_ctime_ns / 1e6


class LagWatch:
    """Watches tables until the block ends. Requires that everything is published then.

    Attributes:
        problems: what was against the order of publishing.
        longest_look_s: the longest time between two looks, by which lags may be too long.
    """

    def __init__(self, world: World, locations: Mapping[str, Path]) -> None:
        self._world = world
        self.problems = list[str]()
        self.longest_look_s = 0.0
        now_ms = time.time() * 1000
        self._seen = {table: _Seen(root, now_ms, 0, 0, {}, {}) for table, root in locations.items()}
        self._stop = threading.Event()
        self._faults = list[BaseException]()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        for table, seen in self._seen.items():
            for version, (inode, _) in seen.files.items():
                file = seen.stat(version)
                if file is None or file[0] != inode:
                    self.problems.append(f"{table}: version {version} was published twice, or is gone")

    def lags(self) -> Sequence[Lag]:
        """The versions that were published, of all tables."""
        return [
            Lag(table, version, seen.ratified[version], seen.files[version][1])
            for table, seen in self._seen.items()
            for version in sorted(seen.ratified.keys() & seen.files.keys())
        ]

    def _run(self) -> None:
        try:
            before_s = time.monotonic()
            while not self._stop.wait(LOOK_S):
                self._look()
                self.longest_look_s = max(self.longest_look_s, time.monotonic() - before_s)
                before_s = time.monotonic()
        except BaseException as fault:
            self.problems.append(f"the watch ended: {fault!r}")

    def _look(self) -> None:
        began_ms = time.time() * 1000
        keys = {self._world.space.table(table): table for table in self._seen}
        rows = self._world.refs.read_many(list(keys))
        for key, table in keys.items():
            seen = self._seen[table]
            latest = TableHead.from_row(rows[key]).latest
            seen.ratified.update(dict.fromkeys(range(seen.latest + 1, latest + 1), seen.looked_ms))
            seen.latest = latest
            seen.looked_ms = began_ms
            while (file := seen.stat(seen.published + 1)) is not None:
                seen.published += 1
                seen.files[seen.published] = file
            missing = seen.published + 1
            if seen.stat(missing + 1) is not None and seen.stat(missing) is None:
                self.problems.append(f"{table}: version {missing + 1} was published before {missing}")

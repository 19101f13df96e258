"""The record of all requests and answers of the clients. Safe for threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

RATIFIED = "ratified"
REFUSED = "refused"
UNTOLD = "untold"


@dataclass
class Group:
    """A transfer as its writer sent it: ``began`` before its cut, ``ended`` after the answer (ns of
    one clock). ``untold`` until an answer says what became of it, for ever if its writer dies
    first."""

    id: str
    reads: Mapping[str, int]
    contents: Mapping[str, bytes]
    began: int
    ended: int | None = None
    outcome: str = UNTOLD

    @property
    def writes(self) -> dict[str, int]:
        """The versions that it names."""
        return {table_id: self.reads[table_id] + 1 for table_id in self.contents}


@dataclass(frozen=True)
class Cut:
    """Versions by table, as a client was told them between two moments."""

    versions: Mapping[str, int]
    began: int
    ended: int


@dataclass
class Record:
    """Grows while the clients work. ``counts`` by what happened; ``problems`` are broken
    promises."""

    groups: list[Group] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _least: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def least(self) -> dict[str, int]:
        """The versions that a cut which begins now must have reached: of every group that was
        acknowledged, and of every cut that was told (I6)."""
        with self._lock:
            return dict(self._least)

    def add_group(self, group: Group) -> None:
        with self._lock:
            self.groups.append(group)

    def told(self, group: Group, outcome: str) -> None:
        """The answer has come."""
        group.ended = time.monotonic_ns()
        with self._lock:
            group.outcome = outcome
            self.counts[outcome] += 1
            if outcome == RATIFIED:
                self._reached(group.writes)

    def add_cut(self, versions: Mapping[str, int], began: int) -> None:
        cut = Cut(versions, began, time.monotonic_ns())
        with self._lock:
            self.cuts.append(cut)
            self._reached(versions)

    def _reached(self, versions: Mapping[str, int]) -> None:
        for table_id, version in versions.items():
            self._least[table_id] = max(version, self._least.get(table_id, 0))

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def wrong(self, problem: str) -> None:
        with self._lock:
            self.problems.append(problem)

"""Spreads test files over processes as xdist's ``loadfile`` does, in constant time for each test.

xdist looks at all tests of a process, and through the list of all tests, whenever one ends: for the
13,000 of ``make test-quick`` that takes 12 seconds of a core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class _Collection(list[str]):
    """A list of tests that finds a test by its name."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:
        return self._places[name]


class FileScheduling(LoadFileScheduling):
    """The scheduler without the files that were run."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        file = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][file].values()):
            del self.assigned_work[node][file]

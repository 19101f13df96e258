"""What rewriting a table is worth, from its file index: without its checkpoint (``maintenance.survey``).

source = IndexedSurvey(planner)
files = source(head, head.floor)          # None: no index serves
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.survey import SurveyedFile
from turnstile.planning.leaves import Leaf
from turnstile.planning.planner import IndexedVersion, Planner

_VECTOR: Final = msgspec.json.Decoder(DeletionVector)


class IndexedFiles:
    """The files of one version (``maintenance.survey.SurveyedFiles``)."""

    def __init__(self, version: IndexedVersion) -> None:
        self._version, self.metadata = version, version.metadata

    def chunks(self) -> Iterator[list[SurveyedFile]]:
        """Yields the files of each leaf. Raises StorageFault."""
        for leaf, alive in self._version.leaves():
            yield _files(leaf, alive)


class IndexedSurvey:
    """Finds the files of a table's version in its index."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def __call__(self, head: TableHead, version: int) -> IndexedFiles | None:
        """Returns them; None where no index serves."""
        found = self._planner.leaves_of(head, version)
        return None if found is None else IndexedFiles(found)


def _files(leaf: Leaf, alive: Any) -> list[SurveyedFile]:
    rows = leaf.table.filter(alive)
    names = leaf.partitions
    columns = (rows[name].to_pylist() for name in ("partition", "size", "modification_ms", "vector", "records"))
    return [
        (
            dict(zip(names, values or (), strict=True)),
            size,
            modified_ms,
            None if vector is None else _VECTOR.decode(vector).cardinality,
            None if vector is None else records,
        )
        for values, size, modified_ms, vector, records in zip(*columns, strict=True)
    ]

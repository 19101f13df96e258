"""The files and rows of a Delta table, for checks of its expectations (``sources``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from turnstile.delta.core.actions import Add
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.expectations.core.conditions import NotEvaluated
from turnstile.expectations.sources import DAY_US, CheckedFile
from turnstile.maintenance.state import open_state
from turnstile.planning.core.predicates import TableColumns, TypedColumn
from turnstile.store.ports import Storages
from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import Column, Range

if TYPE_CHECKING:
    import pyarrow as pa

    from turnstile.planning.read_budget import ReadBudget
    from turnstile_rows.definitions import Definition

FILES_MAX: Final = 200_000
"""Files of a table whose statistics are added up."""
_BATCH: Final = 8_192


class DeltaFile:
    """A file by its action ``add``."""

    def __init__(self, add: Add, schema: TableSchema) -> None:
        self.add = add
        self._schema = schema

    @property
    def path(self) -> str:
        return self.add.path

    @property
    def has_deleted_rows(self) -> bool:
        return self.add.deletionVector is not None

    def ranges(self) -> Callable[[Column], Range] | None:
        return self._schema.ranges_of({"stats": self.add.stats, "partitionValues": self.add.partitionValues})

    def rows(self) -> int:
        rows = self._stats.get("numRecords")
        if type(rows) is not int:
            raise NotEvaluated(f"the statistics of {self.path[:200]!r} do not say how many rows it has")
        return rows - (self.add.deletionVector.cardinality if self.add.deletionVector is not None else 0)

    def nulls(self, column: TypedColumn) -> int:
        assert column.field is not None
        physical = column.field.physical
        values = self.add.partitionValues
        if column.name[0] in self._schema.partitions or physical[0] in values:
            return self.rows() if values.get(physical[0]) in (None, "") else 0
        nulls: Any = self._stats.get("nullCount")
        for name in physical:
            nulls = nulls.get(name) if isinstance(nulls, dict) else None
        if type(nulls) is not int or (nulls and self.has_deleted_rows):
            raise NotEvaluated(f"the statistics of {self.path[:200]!r} do not say how many nulls it has")
        return nulls

    def newest_us(self, column: TypedColumn) -> int | None:
        ranges = self.ranges()
        found = None if ranges is None else ranges(column.name)
        if found is None or not found.has_values:
            return None
        if found.high is None:
            raise NotEvaluated(f"the statistics of {self.path[:200]!r} do not say which value is its newest")
        if column.name[0] in self._schema.partitions and found.low != found.high:
            raise NotEvaluated(f"the partition value of {self.path[:200]!r} has no zone")
        high: int = found.high
        return high * DAY_US if found.kind == "date" else high

    @cached_property
    def _stats(self) -> dict[str, Any]:
        try:
            found = json.loads(self.add.stats) if self.add.stats else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}


class DeltaSource:
    """``TableSource`` of a Delta table. Opens its log once at most."""

    def __init__(
        self,
        storages: Storages,
        budget: ReadBudget,
        location: str,
        metadata: DeltaMetadata,
        *,
        latest: int = 0,
        columns: TableColumns | None = None,
    ) -> None:
        """
        Args:
            latest: the version to check.
            columns: of ``metadata``, if the caller has them.
        """
        self._storages = storages
        self._budget = budget
        self._location = location
        self._metadata = metadata
        self._latest = latest
        self._columns = columns

    @cached_property
    def columns(self) -> TableColumns:
        return self._columns or TableColumns(self._metadata.metadata)

    @property
    def shown_names(self) -> Sequence[str]:
        return [*self._definition.schema.names]

    def require_readable(self) -> None:
        assert self._definition is not None

    def file(self, add: Add | dict[str, Any]) -> DeltaFile:
        """Returns a file by its action."""
        return DeltaFile(add if isinstance(add, Add) else msgspec.convert(add, Add), self.columns.schema)

    def files(self) -> Iterator[DeltaFile]:
        for number, add in enumerate(self._state.files()):
            if number >= FILES_MAX:
                raise NotEvaluated(f"the table has more than {FILES_MAX} files")
            yield self.file(add)

    def read(self, file: CheckedFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        from turnstile.planning.file_rows import FileRows

        assert isinstance(file, DeltaFile)
        reader = FileRows(self._storages, self._location, self._definition, names, self._budget)
        add = file.add
        return reader.read(add.path, add.partitionValues, add.deletionVector, _BATCH)

    @cached_property
    def _definition(self) -> Definition:
        from turnstile_rows.definitions import Definition, check_readable

        actions = {"protocol": self._metadata.protocol, "metaData": self._metadata.metadata}
        definition = Definition.of_actions(actions)
        check_readable(definition)
        return definition

    @cached_property
    def _state(self) -> Any:
        return open_state(self._storages.open(self._location), self._latest)

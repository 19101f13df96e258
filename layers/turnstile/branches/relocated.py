"""A table's state with absolute paths of its files, as the log of a branch's table begins.

Sources: Delta protocol, "Add File and Remove File" (paths), "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from turnstile.delta.core.actions import Add, DeletionVector
from turnstile.delta.core.named_files import is_absolute, vector_file
from turnstile.maintenance.file_actions import Columns, Rows
from turnstile.maintenance.state import TableState

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN: Final = "/:@!$&'()*+,;=-._~"
"""Characters that a URI has as they are, beside letters and digits."""


class RelocatedState:
    """The files of ``state``, of the table at ``location``, for a log elsewhere whose metadata is
    ``metadata``. Tombstones are left out."""

    def __init__(self, state: TableState, location: str, metadata: dict[str, Any]) -> None:
        self._state = state
        self._root = quote(location, safe=_PLAIN)
        self.version = state.version
        self.protocol = state.protocol
        self.metadata = metadata
        self.domains = state.domains
        self.transactions = state.transactions

    def chunks(self) -> Iterator[Rows | Columns]:
        """As ``TableState.chunks``."""
        for chunk in self._state.chunks():
            if isinstance(chunk, Rows):
                yield Rows([self._moved(add) for add in chunk.adds], [])
            elif chunk.adds is not None:
                yield Columns(self._moved_columns(chunk.adds), None)

    def _moved(self, add: Add) -> Add:
        changed = Add(**{name: getattr(add, name) for name in Add.__struct_fields__})
        changed.path = self._absolute(add.path)
        changed.deletionVector = self._moved_vector(add.deletionVector)
        return changed

    def _absolute(self, path: str) -> str:
        return path if is_absolute(path) else f"{self._root}/{path}"

    def _moved_vector(self, vector: DeletionVector | None) -> DeletionVector | None:
        if vector is None or vector.storageType != "u":
            return vector
        path = f"{self._root}/{quote(vector_file(vector) or '', safe=_PLAIN)}"
        return msgspec.structs.replace(vector, storageType="p", pathOrInlineDv=path)

    def _moved_columns(self, adds: pa.StructArray) -> pa.StructArray:
        import pyarrow as pa

        columns = []
        for field in adds.type:
            column = adds.field(field.name)
            match field.name:
                case "path":
                    column = pa.array([self._absolute(path) for path in column.to_pylist()], field.type)
                case "deletionVector":
                    column = pa.array([self._moved_json(vector) for vector in column.to_pylist()], field.type)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(adds.type))

    def _moved_json(self, vector: dict[str, Any] | None) -> dict[str, Any] | None:
        if vector is None:
            return None
        moved = self._moved_vector(msgspec.convert(vector, DeletionVector))
        return vector | {"storageType": moved.storageType, "pathOrInlineDv": moved.pathOrInlineDv} if moved else None

"""A table's state with other paths of its files, as the log of a branch's table begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from turnstile.branches.core.paths import Action, branch_path, branch_vector
from turnstile.delta.core.actions import Add, DeletionVector
from turnstile.maintenance.file_actions import Columns, Rows
from turnstile.maintenance.state import TableState

if TYPE_CHECKING:
    import pyarrow as pa


class RelocatedState:
    """The files of ``state`` for the log of a branch's table with this ``metadata``, and with
    the domains ``registry`` beside the state's. Tombstones are left out."""

    def __init__(self, state: TableState, metadata: dict[str, Any], registry: dict[str, Action]) -> None:
        self._state = state
        self.version = state.version
        self.protocol = state.protocol
        self.metadata = metadata
        self.domains = {**state.domains, **registry}
        self.transactions = state.transactions

    def chunks(self) -> Iterator[Rows | Columns]:
        """As ``TableState.chunks``."""
        for chunk in self._state.chunks():
            if isinstance(chunk, Rows):
                yield Rows([_relocate(add) for add in chunk.adds], [])
            elif chunk.adds is not None:
                yield Columns(_relocate_columns(chunk.adds), None)


def _relocate(add: Add) -> Add:
    members = {name: getattr(add, name) for name in Add.__struct_fields__}
    members["path"] = branch_path(add.path)
    if add.deletionVector is not None:
        vector = branch_vector(msgspec.structs.asdict(add.deletionVector))
        members["deletionVector"] = msgspec.convert(vector, DeletionVector)
    return Add(**members)


def _relocate_columns(adds: pa.StructArray) -> pa.StructArray:
    import pyarrow as pa

    columns = []
    for field in adds.type:
        column = adds.field(field.name)
        match field.name:
            case "path":
                column = pa.array([branch_path(path) for path in column.to_pylist()], field.type)
            case "deletionVector":
                vectors = [None if vector is None else branch_vector(vector) for vector in column.to_pylist()]
                column = pa.array(vectors, field.type)
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(adds.type))

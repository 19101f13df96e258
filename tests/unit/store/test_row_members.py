"""The members of rows by format: a new member has to say whether older code may ignore it (I22, ADR
48)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

import msgspec

from turnstile.adapters.dynamo.models import KINDS
from turnstile.delta.core.undecided import Undecided
from turnstile.store.core.rows import StoredRow, attributes
from turnstile.store.core.writes import KNOWN

LIST: Final = Path(__file__).parent / "row_members.txt"
RULE: Final = f"""

The members of rows are not those of {LIST.name}. Older code runs beside this one while a deployment
is upgraded. Decide which holds:

* Older code may ignore what is added, and it is an attribute of its own, or the last member of
  delta's Entry: correct the list.
* Otherwise the row needs a format: raise KNOWN in store/core/writes.py, write it in a later release
  than the one that knows it, and correct the list (docs/decisions/0048-row-formats.md).
"""


def packed_in(row: type[StoredRow]) -> list[type[msgspec.Struct]]:
    """The structs that are packed into attributes of a row."""
    types = (part for field in msgspec.structs.fields(row) for part in get_args(field.type))
    found = [part for part in types if isinstance(part, type) and issubclass(part, msgspec.Struct)]
    return [*found, Undecided] if row.kind == "table" else found


def members() -> str:
    """One line for each kind of row, and for each struct that is packed into it."""
    lines = [f"known formats: {KNOWN}"]
    rows = [row for row in StoredRow.__subclasses__() if row.__module__.startswith("turnstile.") and row.kind in KINDS]
    for row in sorted(rows, key=lambda row: row.kind):
        lines.append(f"{row.kind}: {' '.join(attributes(row))}")
        lines += [f"  {struct.__name__}: {' '.join(struct.__struct_fields__)}" for struct in packed_in(row)]
    return "\n".join(lines) + "\n"


def test_i22_adding_a_member_to_a_row_requires_a_decision_about_older_code() -> None:
    assert members() == LIST.read_text(), RULE

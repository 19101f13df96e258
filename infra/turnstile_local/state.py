"""``stack.json``: what a program needs in order to reach a running stack."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstile_local.layout import Layout


@dataclass(frozen=True)
class StackState:
    """The contents of ``stack.json``. ``started`` is in milliseconds since the epoch; ``token`` is empty when the API
    is open; ``outputs`` are those of template.yaml; ``keys`` sign the access tokens that the stack issues."""

    pid: int
    port: int
    url: str
    token: str
    lake_root: str
    started: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    keys: str = field(default="", repr=False)

    @property
    def refs_table(self) -> str:
        """Name of the table of HEADs."""
        return self.outputs["RefsTable"]

    @property
    def objs_table(self) -> str:
        """Name of the table of objects."""
        return self.outputs["ObjsTable"]


def read(layout: Layout) -> StackState | None:
    """The state on disk, or None if there is none or it is not readable as such."""
    try:
        raw = json.loads(layout.state_file.read_text())
        return StackState(**{f.name: raw[f.name] for f in fields(StackState) if f.name in raw})
    except (OSError, ValueError, TypeError):
        return None


def write(layout: Layout, state: StackState) -> None:
    """Replace the state on disk in one step, readable by its owner only."""
    partial = layout.state_file.with_suffix(".tmp")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(asdict(state), out, indent=2)
        out.write("\n")
    partial.replace(layout.state_file)

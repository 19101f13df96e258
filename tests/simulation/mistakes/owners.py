"""Mistakes planted in tasks, updateable objects and references: the simulation must find each."""

from __future__ import annotations

from typing import Final
from unittest.mock import patch

from tests.simulation.mistakes.catalog_history import Plant
from tests.simulation.mistakes.tables import swapped, without
from turnstile.coordination.core.rows import Task

_OBJECTS: Final = "turnstile.coordination.tasks.rows."
_REFS: Final = "turnstile.coordination.refs.named_ref."


OWNER_MISTAKES: dict[str, tuple[Plant, str]] = {
    "task: begun while it runs": (lambda: patch.object(Task, "running", lambda *_: False), "I10"),
    "updateable: without 'same version'": (without(_OBJECTS + "update_object", "same version"), "I10"),
    "updateable: without 'new'": (without(_OBJECTS + "create_object", "new"), "I10"),
    "ref: swapped without 'same token'": (without(_REFS + "swap", "same token"), "I6"),
    "ref: deleted without 'same token'": (without(_REFS + "delete", "same token"), "I6"),
    "ref: revived without 'same token'": (without(_REFS + "revive", "same token"), "I6"),
    "ref: created without 'new'": (without(_REFS + "create", "new"), "I6"),
    "ref: never replayed": (lambda: swapped(_REFS + "replayed_value", lambda _: lambda *_: None), "I3"),
    "ref: what is forgotten is refused": (lambda: swapped(_REFS + "moved_on", lambda _: lambda *_: True), "I3"),
}
"""The planted mistake, and the invariant that it breaks first most often."""

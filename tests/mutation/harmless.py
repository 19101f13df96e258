"""The replacements of clauses and actions in a mutant."""

from __future__ import annotations

from turnstile.store.core.writes import Absent, Clause, Either, Present, Set

HELD = Clause("removed", "-", "always", Either((Absent(("key",)), Present(("key",)))))
NOTHING = Set(("mutant",), 0)

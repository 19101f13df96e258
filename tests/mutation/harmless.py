"""What a mutant puts in place of a clause or an action."""

from __future__ import annotations

from turnstile.store.core.writes import Absent, Clause, Either, Present, Set

HELD = Clause("removed", "-", "always", Either((Absent(("key",)), Present(("key",)))))
NOTHING = Set(("mutant",), 0)

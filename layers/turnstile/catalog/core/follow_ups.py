"""Rules of follow-ups: ``dbt after 10 commits, cache on publish``. An action is one that the
deployment names."""

from __future__ import annotations

import re
from typing import Final

import msgspec

RULES_MAX: Final = 10
COMMITS_MAX: Final = 1_000_000

ACTION: Final = r"[a-z0-9][a-z0-9_-]{0,62}"
"""The form of the name of an action, and of a target of events."""

_RULE: Final = re.compile(rf"({ACTION})\s+(?:on\s+publish|after\s+([0-9]{{1,7}})\s+commits?)", re.ASCII)
_LONGEST_TEXT: Final = 1_000


class FollowUpRule(msgspec.Struct, frozen=True):
    """``action`` is run when ``commits`` versions or more were published since it ran."""

    action: str
    commits: int


def follow_ups_of(text: str) -> tuple[FollowUpRule, ...]:
    """Returns the rules of a text. Raises ValueError, naming the expected form."""
    parts = text.split(",") if len(text) <= _LONGEST_TEXT else []
    matches = [match for part in parts if (match := _RULE.fullmatch(part.strip().lower()))]
    rules = tuple(FollowUpRule(match[1], int(match[2] or 1)) for match in matches)
    readable = bool(parts) and len(rules) == len(parts) <= RULES_MAX
    distinct = len({rule.action for rule in rules}) == len(rules)
    if not readable or not distinct or not all(1 <= rule.commits <= COMMITS_MAX for rule in rules):
        raise ValueError(
            f"up to {RULES_MAX} rules, each of another action, as in dbt after 10 commits, cache on publish"
        )
    return rules

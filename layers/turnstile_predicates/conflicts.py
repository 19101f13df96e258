"""Whether commits of a table may have changed the result of a read with a predicate. Pure; the
server and the Spark client use it.

    judge = ReadJudge(predicate, TableSchema.of(metadata))       # of the version that was read
    for version, actions in commits_after_it:                    # oldest first, without gaps
        change = judge.change(version, actions)                  # None: the read has the same
                                                                 result after this commit

Only rows of files that a commit added or removed can change a read. A file matters if some row
within its partition values and statistics can satisfy the predicate. The rule is sound: it never
misses a matching row. It may report a match where there is none. Source: TreeCat, precision
locking.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import TRUE, Predicate, outcomes

Action = Mapping[str, Any]
"""A line of a commit: one member, named as the action."""
_DEFINITIONS: Final = (("metaData", "the table's definition"), ("protocol", "the table's protocol"))


@dataclass(frozen=True, slots=True)
class ChangedRead:
    """A possible change of a read by a commit. ``path``: of the file; None: the commit changed the
    table's definition."""

    version: int
    reason: str
    path: str | None = None


def _was_there(_: Action) -> bool:
    return True


class ReadJudge:
    """Judges one read by the commits after it. ``predicate`` None: every row was read.
    ``was_read``: whether a file that a commit removed, and that was there when the table was read,
    may have had rows which satisfy the predicate; it is asked where the ``remove`` itself does not
    exclude it.
    """

    def __init__(
        self, predicate: Predicate | None, schema: TableSchema, was_read: Callable[[Action], bool] = _was_there
    ) -> None:
        self._predicate = predicate
        self._schema = schema
        self._was_read = was_read
        self._arrived: dict[tuple[str, str], Action] = {}

    @property
    def remembered_files(self) -> int:
        """How many added files are remembered."""
        return len(self._arrived)

    def change(self, version: int, actions: Sequence[Action]) -> ChangedRead | None:
        """The possible change by the next commit; None for none. A file that only moved rows
        (``dataChange`` false) changes no read. A ``remove`` is checked by its own statistics, and
        by the statistics of the later commit that added the file.
        """
        if (reason := definition_change(actions)) is not None:
            return ChangedRead(version, reason)
        for kind, verb in (("remove", "removed"), ("add", "added")):
            for action in actions:
                file = action.get(kind)
                if file is None:
                    continue
                earlier = self._arrived.get(_key(file))
                if kind == "add":
                    self._arrived[_key(file)] = file
                is_same = not file.get("dataChange", True)
                if is_same or not all(self._may_match(each) for each in (file, earlier) if each):
                    continue
                if kind == "add" or earlier is not None or self._was_read(file):
                    reason = f"a row of a file that it {verb} may satisfy a predicate of this transaction's reads"
                    return ChangedRead(version, reason, file["path"])
        return None

    def _may_match(self, file: Action) -> bool:
        """Whether a row of the file may satisfy the predicate."""
        range_of = self._schema.ranges_of(file)
        if range_of is None:
            return False
        return self._predicate is None or bool(outcomes(self._predicate, range_of) & TRUE)


def definition_change(actions: Sequence[Action]) -> str | None:
    """A commit's change of the table's definition or protocol, as a reason; None for none. After it
    a name may belong to another column."""
    for kind, what in _DEFINITIONS:
        if any(kind in action for action in actions):
            return f"it changed {what}"
    return None


def _key(file: Action) -> tuple[str, str]:
    """The identity of a logical file: its path and its deletion vector. Its rows never change."""
    vector = file.get("deletionVector") or {}
    return file["path"], json.dumps([vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset")])

"""The one commit of a transaction in a table, rewritten for a later version than it was made for.
Pure.

For use after :func:`turnstile_spark.transactions.conflicts.conflict_check.assess` has found no
conflict with the winners. Source: Delta's protocol, *In-Commit Timestamps*, *Row Tracking*,
*Transaction Identifiers*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from turnstile_spark.transactions.conflicts.conflict_check import ROW_TRACKING, Winner

Action = Mapping[str, Any]
#: The mark of a table that has given out no row id yet (Delta's ``MISSING_HIGH_WATER_MARK``).
NO_ROW_IDS: Final = -1
_MARK: Final = "rowIdHighWaterMark"


class CannotRebase(Exception):
    """The commit has no counterpart at a later version: the transaction has to run its statements
    again. The message says why."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """The base of a commit: the version before it, with its in-commit timestamp (ms; None: the
    table has none), the highest row id that was given out, and the progress of the streaming
    applications that are known to have moved.
    """

    version: int
    in_commit_timestamp_ms: int | None = None
    row_id_mark: int = NO_ROW_IDS
    applications: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def before(cls, own_actions: Sequence[Action], version: int) -> Self:
        """The base of a commit, as far as its actions show it. ``version``: the one before it.

        Rows that it wrote first have its own version, and the row ids that follow the mark of
        before.
        """
        adds = [action["add"] for action in own_actions if action.get("add", {}).get("baseRowId") is not None]
        fresh = [add["baseRowId"] for add in adds if (add.get("defaultRowCommitVersion") or 0) > version]
        mark = min(fresh) - 1 if fresh else max((add["baseRowId"] for add in adds), default=NO_ROW_IDS)
        return cls(version, row_id_mark=mark)

    def after(self, winners: Iterable[Winner]) -> TableHead:
        """The head once these commits were made on top of it. Raises ``ValueError`` if they do not
        follow."""
        head = self
        for winner in winners:
            if winner.version != head.version + 1:
                raise ValueError(f"version {winner.version} does not follow {head.version}")
            head = head._after(winner)
        return head

    def _after(self, winner: Winner) -> TableHead:
        timestamp = self.in_commit_timestamp_ms
        mark = self.row_id_mark
        applications = dict(self.applications)
        for action in winner.actions:
            if "commitInfo" in action:
                timestamp = action["commitInfo"].get("inCommitTimestamp", timestamp)
            elif "txn" in action:
                applications[action["txn"]["appId"]] = action["txn"]["version"]
            mark = _mark_of(action, mark)
        return replace(
            self,
            version=winner.version,
            in_commit_timestamp_ms=timestamp,
            row_id_mark=mark,
            applications=applications,
        )


def rebase(own_actions: Sequence[Action], base: TableHead, head: TableHead) -> list[Action]:
    """The actions of the commit ``base.version`` + 1 as those of ``head.version`` + 1; the
    arguments are left unchanged.

    ``own_actions``: one commit, ``commitInfo`` first. ``base``: its base; ``head``: its new base
    (:meth:`TableHead.after` of the winners). Its in-commit timestamp becomes later than the head's;
    row ids that it gave out follow the head's mark, and so does its own mark; rows that it wrote
    first have its new version as default row commit version.

    Raises :class:`CannotRebase` when a winner set a streaming application that the commit sets (its
    batch may be in the table already), and when rows that it wrote first were rewritten in it while
    the table tracks rows: their ids and versions are inside a data file. ``ValueError`` when
    ``head`` is before ``base``.
    """
    if head.version < base.version:
        raise ValueError(f"a commit on top of version {base.version} cannot be put on top of {head.version}")
    if head.version == base.version:
        return list(own_actions)
    for action in own_actions:
        name = action["txn"]["appId"] if "txn" in action else None
        if name is not None and head.applications.get(name) != base.applications.get(name):
            raise CannotRebase(
                f"version {head.version} or one before it set the streaming application '{name}' as well"
            )
    own_mark = _own_mark(own_actions, base)
    _check_row_ids(own_actions, base, own_mark)
    shift = head.row_id_mark - base.row_id_mark
    if shift < 0:
        raise CannotRebase("row tracking was switched off and on by commits in between")
    return [_move(action, base, head, shift) for action in own_actions]


def _move(action: Action, base: TableHead, head: TableHead, shift: int) -> Action:
    if "commitInfo" in action:
        info = dict(action["commitInfo"])
        if "inCommitTimestamp" in info and head.in_commit_timestamp_ms is not None:
            info["inCommitTimestamp"] = max(info["inCommitTimestamp"], head.in_commit_timestamp_ms + 1)
        return {"commitInfo": info}
    if "add" in action:
        file = dict(action["add"])
        if _is_fresh(file, base):
            file["baseRowId"] += shift
        if (file.get("defaultRowCommitVersion") or 0) > base.version:
            file["defaultRowCommitVersion"] = head.version + 1
        return {"add": file}
    if _is_mark(action):
        return {
            "domainMetadata": {
                **action["domainMetadata"],
                "configuration": json.dumps({_MARK: _mark_of(action, 0) + shift}),
            }
        }
    return action


def _is_fresh(file: Action, base: TableHead) -> bool:
    """Whether the commit gave out the row ids of this file (others keep those they had)."""
    first = file.get("baseRowId")
    return first is not None and first > base.row_id_mark


def _is_mark(action: Action) -> bool:
    domain = action.get("domainMetadata")
    return domain is not None and domain["domain"] == ROW_TRACKING and not domain.get("removed")


def _mark_of(action: Action, otherwise: int) -> int:
    return int(json.loads(action["domainMetadata"]["configuration"])[_MARK]) if _is_mark(action) else otherwise


def _own_mark(own: Sequence[Action], base: TableHead) -> int:
    marks = [_mark_of(action, base.row_id_mark) for action in own if _is_mark(action)]
    if marks:
        return marks[-1]
    if any("add" in action and _is_fresh(action["add"], base) for action in own):
        raise CannotRebase("the commit gives out row ids and does not set the table's mark of row ids")
    return base.row_id_mark


def _check_row_ids(own: Sequence[Action], base: TableHead, own_mark: int) -> None:
    """Every id that was given out is of a row of a file that is still as it was written.

    A statement that rewrites rows of an earlier one copies their ids into the new file, where they
    cannot follow a mark. Then the file they came from is gone, or has a deletion vector.
    """
    following = base.row_id_mark + 1
    fresh = [action["add"] for action in own if "add" in action and _is_fresh(action["add"], base)]
    for file in sorted(fresh, key=lambda f: f["baseRowId"]):
        rows = json.loads(file.get("stats") or "{}").get("numRecords")
        if file["baseRowId"] != following or file.get("deletionVector") or not isinstance(rows, int):
            break
        following += rows
    if following != own_mark + 1:
        raise CannotRebase(
            "the table tracks rows, and a statement of this transaction rewrote rows that an earlier one wrote: "
            "their row ids are inside a data file"
        )

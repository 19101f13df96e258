"""Decisions of a rewrite: files that are put together, and commits that are in the way. Pure.

Source: Delta protocol, "Add File and Remove File", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from turnstile_predicates.conflicts import definition_change
from turnstile_rows.commits import actions_of

File = Mapping[str, Any]


@dataclass(frozen=True)
class Bin:
    """Files of one partition that are rewritten together, as a plan lists them."""

    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(int(file["size"]) for file in self.files)

    @property
    def paths(self) -> frozenset[str]:
        """The decoded paths of the files."""
        return frozenset(unquote(file["path"]) for file in self.files)


def small_bins(files: Iterable[File], target_bytes: int, *, gradual: bool = False) -> list[Bin]:
    """Returns bins of two files or more, of up to ``target_bytes``.

    ``gradual``: a bin has no file that is more than twice as large as its smaller files together.
    So each rewrite makes a file at least one and a half times as large as its largest input, and
    repeated runs write each row only a few times.
    """
    return [each for each in _pack(files, target_bytes, 2 if gradual else None) if len(each.files) > 1]


def purged_bins(files: Iterable[File], target_bytes: int) -> list[Bin]:
    """Returns bins of the files with deletion vectors."""
    return _pack((file for file in files if file.get("deletionVector")), target_bytes, None)


def _pack(files: Iterable[File], target_bytes: int, growth: int | None) -> list[Bin]:
    """Bins of up to ``target_bytes``, or of one larger file, each of one partition: the smallest
    files first. ``growth``: how often the smaller files of its bin a file may be; None: any."""
    bins = []
    for found in _by_partition(files):
        waiting: list[File] = []
        size = 0
        for file in sorted(found, key=lambda file: (int(file["size"]), str(file["path"]))):
            own = int(file["size"])
            if waiting and (size + own > target_bytes or (growth is not None and own > growth * size)):
                bins.append(Bin(tuple(waiting)))
                waiting = []
                size = 0
            waiting.append(file)
            size += own
        bins.append(Bin(tuple(waiting)))
    return bins


def _by_partition(files: Iterable[File]) -> list[list[File]]:
    found: dict[tuple[tuple[str, str | None], ...], list[File]] = {}
    for file in files:
        key = tuple(sorted((name, value or None) for name, value in file["partitionValues"].items()))
        found.setdefault(key, []).append(file)
    return list(found.values())


def within(files: Sequence[File], partitions: Sequence[Mapping[str, str | None]]) -> list[File]:
    """Returns the files of these partitions: values by the names that actions have, an empty text
    being null."""
    keys = {frozenset((name, value or None) for name, value in each.items()) for each in partitions}
    return [
        file
        for file in files
        if frozenset((name, value or None) for name, value in file["partitionValues"].items()) in keys
    ]


class Changes:
    """The changes of a table after the version that a rewrite was planned from.

    ``version``: up to which they are known; ``timestamp``: its in-commit timestamp; ``touched``:
    decoded paths of the files that commits removed or changed; ``is_stale``: whether the bins have
    to be planned anew, because a commit changed the table's metadata or protocol, or is not known.
    """

    def __init__(self, version: int, timestamp: int) -> None:
        self.version = version
        self.timestamp = timestamp
        self.touched = set[str]()
        self.is_stale = False

    def add(self, content: str) -> None:
        """Adds the next version's commit."""
        actions = actions_of(content)
        self.is_stale |= definition_change(actions) is not None
        for action in actions:
            self.timestamp = (action.get("commitInfo") or {}).get("inCommitTimestamp", self.timestamp)
            file = action.get("remove") or action.get("add")
            if file is not None:
                self.touched.add(unquote(file["path"]))
        self.version += 1

    def leave(self, files: Bin) -> bool:
        """Whether the files of a bin, and their table's definition, are as they were planned."""
        return not self.is_stale and self.touched.isdisjoint(files.paths)

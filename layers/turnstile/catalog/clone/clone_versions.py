"""Which version a Delta table had at some time, from its log: a few reads, however long the log is.

In-commit timestamps only go forwards (I7), so the version is found by halving. Only the first action of a commit is
read, which is its commitInfo.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.paths import LOG, published_path
from turnstile.store.ports import LogStorage

_FIRST_BYTES: Final = 65_536
_NAME: Final = len("00000000000000000000.json")


def version_at(storage: LogStorage, head: TableHead, time: int, name: str) -> tuple[int, int]:
    """The newest published version of ``head`` that is not later than ``time`` (ms), and its in-commit timestamp.

    A table whose first version is later by the clock of whoever wrote it has that one.

    Args:
        name: the table's, for messages.

    Raises:
        StateConflict: ``CannotClone``: the log does not go back so far any more.
    """
    if head.floor == head.latest and head.last_ict <= time:
        return head.latest, head.last_ict
    low = _oldest(storage)
    if low is None or low > head.floor:
        raise _cleaned(name, time)
    first = timestamp_of(storage, low, name)
    if first > time:
        if low > 0:
            raise _cleaned(name, time)
        return 0, first
    found, high = first, head.floor
    while low < high:  # ``low`` is not later than ``time``, what follows ``high`` is
        middle = (low + high + 1) // 2
        at = timestamp_of(storage, middle, name)
        if at <= time:
            low, found = middle, at
        else:
            high = middle - 1
    return low, found


def timestamp_of(storage: LogStorage, version: int, name: str) -> int:
    """In-commit timestamp of a published version (ms); 0 for one of before the table had any.

    Raises:
        StateConflict: ``CannotClone``: the log does not have it any more.
    """
    found = storage.read(published_path(version), _FIRST_BYTES)
    if found is None:
        raise StateConflict(
            "CannotClone",
            f"version {version} of table '{name}' is not in its log any more",
            field="of",
            remedy="clone a later moment, or the table as it is now",
            version=version,
        )
    try:
        action = msgspec.json.decode(found[0].split(b"\n", 1)[0], type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return 0
    info = action.get("commitInfo")
    at = info.get("inCommitTimestamp") if isinstance(info, dict) else None
    return at if type(at) is int else 0


def _oldest(storage: LogStorage) -> int | None:
    """The oldest version whose commit is in the log; the listing ends with it."""
    for stat in storage.list(LOG):
        name = stat.path.removeprefix(LOG)
        if len(name) == _NAME and name.endswith(".json") and name[:20].isdigit():
            return int(name[:20])
    return None


def _cleaned(name: str, time: int) -> StateConflict:
    return StateConflict(
        "CannotClone",
        f"the log of table '{name}' does not go back to {time}",
        field="of",
        remedy="clone a later moment, or the table as it is now",
    )

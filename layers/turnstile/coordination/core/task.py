"""A coordinated task: something of which at most one runs at a time (Polaris, "Special case: coordinated tasks").

A task is an updateable object. Who begins it holds a lease on it; who finds a lease that is over takes it over; who
finishes leaves a result, which stays until the next one. Every one of these is a function from what the object holds to
what it is to hold, written under the version that it was computed from. So of two that begin at once one wins, and who
lost the lease cannot leave a result any more (I10).
"""

from __future__ import annotations

from typing import Final

import msgspec


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the object holds; times in ms.

    Attributes:
        attempt: rises by one whenever the task is begun. Whatever the task writes elsewhere can be fenced with it.
        until: end of the lease of the one that runs; 0 when none does.
        began: when the present or the last attempt began.
        ended: when the last one that ended did; 0 before.
        result: what the last attempt that succeeded left.
        succeeded: the attempt that left it; 0 before.
        failure: why the last attempt failed; empty when it did not.
        abandoned: attempts that were taken over since the last one that succeeded.
    """

    attempt: int = 0
    until: int = 0
    began: int = 0
    ended: int = 0
    result: bytes = b""
    succeeded: int = 0
    failure: str = ""
    abandoned: int = 0

    def running(self, now: int) -> bool:
        """Whether somebody holds the lease."""
        return now < self.until


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Task)


def pack(task: Task) -> bytes:
    """The object's payload."""
    return _ENCODER.encode(task)


def unpack(payload: bytes) -> Task:
    """The task that ``pack`` was given. Members that later versions add are skipped."""
    return _DECODER.decode(payload)


def begun(task: Task, now: int, until: int) -> Task:
    """The next attempt, of a task that does not run."""
    return msgspec.structs.replace(
        task, attempt=task.attempt + 1, until=until, began=now, abandoned=task.abandoned + bool(task.until)
    )


def renewed(task: Task, until: int) -> Task:
    """The same attempt with a later end of its lease."""
    return msgspec.structs.replace(task, until=max(until, task.until))


def finished(task: Task, result: bytes, now: int) -> Task:
    """The attempt succeeded."""
    return msgspec.structs.replace(
        task, until=0, ended=now, result=result, succeeded=task.attempt, failure="", abandoned=0
    )


def failed(task: Task, why: str, now: int) -> Task:
    """The attempt failed; the next may begin at once. The result of an earlier one stays."""
    return msgspec.structs.replace(task, until=0, ended=now, failure=why[:500] or "failed")

"""Snowflake ids: 64 bits that order by time and are unique without a request (Polaris, "Object ID
Alternatives").

    0 | 41 bits: ms since 2025-01-01T00:00Z | 10 bits: node | 12 bits: sequence

A node is leased, and a lease is a *range of time*: its ids carry times from ``start`` on and before
``stop``, and the next lease of the node starts where this one stops, as the node's row says. So two
holders of a node never make the same id, with any clocks, and however long one holder was frozen:
the rest of its range is still its own (I2).
"""

from __future__ import annotations

from typing import Final

import msgspec

EPOCH_MS: Final = 1_735_689_600_000  # 2025-01-01T00:00Z
TIME_BITS: Final = 41
NODE_BITS: Final = 10
SEQUENCE_BITS: Final = 12
RANDOM_BITS: Final = NODE_BITS + SEQUENCE_BITS

NODES: Final = 1 << NODE_BITS
PER_MS: Final = 1 << SEQUENCE_BITS

RESERVED_MS: Final = 1_000  # the first times after the epoch are reserved for special ids
_LAST_MS: Final = EPOCH_MS + (1 << TIME_BITS) - 1


class IdParts(msgspec.Struct, frozen=True):
    """The parts of an id; ``at`` in ms since 1970."""

    at: int
    node: int
    sequence: int


def compose(at: int, node: int, sequence: int) -> int:
    """The id; ``at`` in ms since 1970. Raises ValueError for a part out of range: in 2094 the times
    end."""
    if not EPOCH_MS + RESERVED_MS <= at <= _LAST_MS:
        raise ValueError(f"{at} ms is outside the times that an id can carry")
    if not 0 <= node < NODES or not 0 <= sequence < PER_MS:
        raise ValueError(f"node {node} or sequence {sequence} is out of range")
    return (at - EPOCH_MS) << RANDOM_BITS | node << SEQUENCE_BITS | sequence


def parts_of(id: int) -> IdParts:
    """The parts that ``compose`` made the id of."""
    return IdParts((id >> RANDOM_BITS) + EPOCH_MS, id >> SEQUENCE_BITS & (NODES - 1), id & (PER_MS - 1))


def random_id(at: int, random: int) -> int:
    """An id with ``random`` bits for node and sequence: ordered by time, but unique only once it
    has been claimed (written by an insert). Use it if there are more processes than nodes."""
    return compose(at, random >> SEQUENCE_BITS & (NODES - 1), random & (PER_MS - 1))


class IdRange(msgspec.Struct, frozen=True):
    """The ids of one lease of a node: times from ``start`` on and before ``stop`` (ms since 1970).
    ``last`` and ``sequence`` come from the last id (``last`` 0: none yet). Immutable."""

    node: int
    start: int
    stop: int
    last: int = 0
    sequence: int = 0

    def next(self, now: int) -> tuple[int, IdRange] | None:
        """Returns the next id, greater than all before, and the range after it; None when the range
        is used up. The id carries the time ``now`` (ms). Where the clock stepped back or the
        sequence is exhausted, its time runs ahead of the clock; it lies in the range, so no other
        holder uses it.
        """
        at = max(now, self.last, self.start)
        sequence = 0
        if at == self.last:
            sequence = self.sequence + 1
            if sequence == PER_MS:
                at = at + 1
                sequence = 0
        if at >= self.stop:
            return None
        return compose(at, self.node, sequence), IdRange(self.node, self.start, self.stop, at, sequence)

    def until(self, stop: int) -> IdRange:
        return msgspec.structs.replace(self, stop=stop)

    @property
    def free(self) -> int:
        """The first time that no id carries: where the next lease may start if this one is given
        up."""
        return max(self.last + 1, self.start)

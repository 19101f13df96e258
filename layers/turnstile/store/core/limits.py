"""Limits of sizes: integers, responses and their pages, and objects that the service stores."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

# -- integers ----------------------------------------------------------------------------------------------------------
# JSON and Python know no widths, those who read what we write do: a number beyond ``long`` would
# get into files that no client can read again. The annotated types are for members of Structs: a
# number out of range is refused where it is decoded, with the member's path.

INT_MAX: Final = 2**31 - 1
"""The largest ``int`` of Java and Iceberg, 32 bits; the smallest is one more below zero."""

LONG_MAX: Final = 2**63 - 1
"""The largest ``long``, 64 bits."""

EXACT_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""

Int32 = Annotated[int, Meta(ge=-INT_MAX - 1, le=INT_MAX)]
"""``int``: an id; -1 is one that was not assigned yet."""

NonNegative32 = Annotated[int, Meta(ge=0, le=INT_MAX)]
"""``int``: a position or a width."""

Positive32 = Annotated[int, Meta(ge=1, le=INT_MAX)]
"""``int``: how many to keep."""

Int64 = Annotated[int, Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]
"""``long``: the id of an Iceberg snapshot."""

NonNegative64 = Annotated[int, Meta(ge=0, le=LONG_MAX)]
"""``long``: a time in ms since 1970, a sequence number, bytes, rows."""

Positive64 = Annotated[int, Meta(ge=1, le=LONG_MAX)]
"""``long``: an age in ms."""

NonNegativeExact = Annotated[int, Meta(ge=0, le=EXACT_MAX)]
"""A version, a time or a number of bytes in APIs whose clients read JSON numbers as doubles."""

# -- responses ---------------------------------------------------------------------------------------------------------
# A Lambda function returns JSON, which Lambda embeds as a JSON string in JSON of its own of 6 MB at
# most. A longer response fails the caller after the operation was done. One stored byte may become
# seven: U+0001 is ``\u0001`` in the response, and its backslash is escaped once more. So sizes are
# measured on the text of the response, never on what is stored.

RESPONSE_BYTES_MAX: Final = 6_000_000
"""Escaped bytes of a response's body; Lambda takes 6,291,556 with everything around it."""

PAGE_BYTES: Final = 5_000_000
"""Escaped bytes of the items of a page; the rest is left to the members around them."""

_LINE_SEPARATORS: Final = ("\u2028".encode(), "\u2029".encode())
"""Lambda's encoder escapes these although JSON does not require it."""


def escaped_size(body: bytes) -> int:
    """Returns the bytes that a JSON body takes as a string inside Lambda's JSON. Its control
    characters are escaped already."""
    return len(body) + body.count(b'"') + body.count(b"\\") + 3 * sum(body.count(line) for line in _LINE_SEPARATORS)


def response_size(value: Any) -> int:
    """Returns the escaped bytes that ``value`` takes as the JSON of a response, or as a part of
    one."""
    return escaped_size(msgspec.json.encode(value))


class PageBudget:
    """Bytes that are left of a page while it is filled with items: ``limit`` escaped bytes of all
    together."""

    def __init__(self, limit: int = PAGE_BYTES) -> None:
        self._left = limit
        self._empty = True

    def fits(self, size: int) -> bool:
        """Returns whether an item of this size still fits, and if so counts it. The first item
        always fits: an empty page would end the listing. Stored items are limited so that one never
        exceeds a response.
        """
        if not self._empty and size > self._left:
            return False
        self._left = self._left - size
        self._empty = False
        return True


# -- the service -------------------------------------------------------------------------------------------------------

ROW_BUDGET: Final = 30_000
"""Bytes the tail of a table's HEAD may carry: 32 kB for the row less the size of its other
attributes and of a floor update. A deployment may ask for less; with more, a hundred HEADs would
not fit one transaction.
"""


class SpillLimits(msgspec.Struct, frozen=True):
    """When a catalog's index spills, in bytes as packed: ``embedded`` from which size the embedded
    layer does (more, where the directory itself is larger); ``segment`` size of one segment. Every
    change writes the one; rewrites of the other are shared by the changes that wait for them.
    """

    embedded: int = 8 * 1024
    segment: int = 128 * 1024


class Limits(msgspec.Struct, frozen=True):
    """Sizes in bytes, times in ms.

    ``inline_bytes`` largest inline commit; ``staged_max_bytes`` largest staged commit;
    ``staged_bytes`` largest staged commit that is read whole, and of a larger one the size
    of the beginning that is read; ``first_line_bytes`` largest first line of one; ``prefix_bytes``
    the part of a published one that is read to answer a replay; ``clock_skew_ms`` how far ahead of
    the server's clock an in-commit timestamp may be; ``identity_days`` how long replays of
    published commits are recognised; ``backlog_bytes`` the largest size of a table's unpublished
    commits in its row, before commits are refused; ``winners_bytes`` inline content a conflict
    answer carries at most; ``attempts`` how often a proposal is decided anew; ``spill`` when a
    catalog's index spills; ``history_ms`` for how long gc leaves a catalog's past
    (``Grace.history``), for resets; ``unnamed_ms`` for how long it leaves files of Iceberg tables
    that no metadata name (``Grace.unnamed_ms``).
    """

    inline_bytes: int = 256 * 1024
    staged_max_bytes: int = 640 * 1024 * 1024
    staged_bytes: int = 64 * 1024 * 1024
    first_line_bytes: int = 1024 * 1024
    prefix_bytes: int = 1024 * 1024
    clock_skew_ms: int = 5 * 60 * 1000
    identity_days: int = 30
    backlog_bytes: int = ROW_BUDGET
    winners_bytes: int = 1024 * 1024
    attempts: int = 8
    spill: SpillLimits = SpillLimits()
    history_ms: int = 168 * 3_600_000
    unnamed_ms: int = 168 * 3_600_000


def growing_pause_ms(failures: int, first_ms: int, longest_ms: int) -> int:
    """Returns the pause after ``failures`` in a row, at least one: twice as long each time."""
    return min(first_ms << min(failures - 1, 16), longest_ms)

"""The first seeds that found the planted mistakes. Only a head start: where the services or the scenarios have changed, the
search goes on from the first seed. ``python -m tests.simulation --scenario pasts --mistakes`` prints them."""

from __future__ import annotations

from typing import Final

KNOWN: Final = {
    "gc: the edge is now": 19,
    "gc: no margin at the edge": 116,
    "gc: no margin for what is on its way": 1_777,
    "gc: restoring commits are not marked": 98,
    "gc: snapshots are not marked": 22,
    "gc: recent HEADs are not marked": 3,
    "gc: a dropped catalog's objs by their age": 144,
    "gc: a catalog created again is not seen": 418,
    "reset: does not say that it restores": 98,
    "reset: leaves the HEADs of tables": 2,
    "reset: restores what is purged": 277,
    "history: gone back to whatever is there": 471,
    "swap: without 'same head'": 1,
    "swap: landed and not noticed": 19,
    "tidy: what may yet land": 57,
    "tidy: what a later attempt named": 1,
    "clone: holds nothing": 1,
    "clone: dropped and still held": 4,
    "clone: purged under it": 14,
    "clone: comes back with a reset and holds nothing": 15,
    "listing: not pinned": 2,
    "merge: computed once": 7,
    "iceberg: swept when unknown": 61,
    "iceberg: one table after the other": 2,
    "turn: believed for ever": 1_680,
    "change: applied however old it is": 4,
    "gc: no fence": 257,
    "swap: without 'not swept'": 192,
    "swap: 'not swept' for resets only": 1_071,
    "lease: released without 'held'": 43,
    "ref: revived without 'same token'": 23,
    "ref: what is forgotten is refused": 61,
}

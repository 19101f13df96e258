"""Long work is done some hundred items at a time: bounded memory, progress, and little to repeat after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """``items``, ``size`` at a time and in their order; no more of them is taken than was asked for. (Python 3.11, which
    is supported, lacks ``itertools.batched``.)"""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch

"""Finds the files whose statistics do not show that all of their rows satisfy a predicate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from turnstile.planning.core.predicates import TRUE, Predicate, outcomes
from turnstile_predicates.file_stats import TableSchema


def undecided_files(
    predicate: Predicate, schema: TableSchema, files: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yields the ``add`` actions among ``files`` with rows that may not satisfy the predicate."""
    for file in files:
        ranges = schema.ranges_of(file)
        if ranges is not None and outcomes(predicate, ranges) != TRUE:
            yield file

"""Finds the predicates that the statistics of a file do not decide for all of its rows. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from turnstile.planning.core.predicates import TRUE, Predicate, outcomes
from turnstile_predicates.file_stats import TableSchema


def undecided(predicates: Iterable[Predicate], schema: TableSchema, file: Mapping[str, Any]) -> list[Predicate]:
    """Returns the predicates that some row of a file, an ``add`` action, may not satisfy."""
    ranges = schema.ranges_of(file)
    if ranges is None:
        return []
    ranges = functools.cache(ranges)
    return [predicate for predicate in predicates if outcomes(predicate, ranges) != TRUE]

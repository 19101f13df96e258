"""Plans as values: the question to a planner, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.head import TableHead
from turnstile.planning.core.predicates import Predicate, TableColumns

MAX_FILES: Final = 5_000
"""Files of one page."""
MAX_SAMPLE_ROWS: Final = 100
"""Rows of a sample (``turnstile.planning.sample``)."""


class PlannedFile(msgspec.Struct, frozen=True, gc=False):
    """A data file that may have rows which satisfy the predicate.

    Attributes:
        path: as the log has it: relative to the table or absolute, and escaped as a URI.
        partition_values: texts by physical name, as the log has them.
        records: rows in the file, deleted ones included; None where no statistics say it.
        stats: the file's statistics as JSON, as the log has them; None unless asked for, and where
            there are none.
    """

    path: str
    size: int
    partition_values: dict[str, str | None]
    modification_ms: int
    records: int | None = None
    stats: str | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


class PlanStatistics(msgspec.Struct, frozen=True):
    """The numbers of a plan.

    Attributes:
        files, bytes: that may match: of this page, and of an explained plan all of them.
        leaves, leaves_read: of the index, and how many of them the predicate could not exclude.
        index_version: the version that the index is of, -1 for none: the log was read.
            ``tail_versions`` commits after it were applied.
        total_files, total_bytes, total_records: of the table, if the plan is explained; records as
            far as statistics have them.
        files_without_records: files whose statistics have no number; total_deleted_rows: rows in
            deletion vectors; total_partitions: different partition values, None for too many to
            count: of the table, if the plan is explained.
        dropped: by part of the predicate (of AND's parts), how many files that part alone excludes,
            if the plan is explained.
    """

    files: int
    bytes: int
    leaves: int = 0
    leaves_read: int = 0
    tail_versions: int = 0
    index_version: int = -1
    total_files: int | None = None
    total_bytes: int | None = None
    total_records: int | None = None
    files_without_records: int | None = None
    total_deleted_rows: int | None = None
    total_partitions: int | None = None
    dropped: dict[str, int] = {}


class Plan(msgspec.Struct, frozen=True):
    """A page of the files of a table at ``version``; ``next_page`` None: it is the last one.
    ``protocol`` and ``metadata`` are the actions' members, as of the version."""

    version: int
    files: Sequence[PlannedFile]
    statistics: PlanStatistics
    next_page: str | None
    protocol: dict[str, Any]
    metadata: dict[str, Any]


class TableSample(msgspec.Struct, frozen=True):
    """A few rows of a ``version`` (``turnstile.planning.sample``).

    Attributes:
        columns: the names of the columns that are shown.
        rows: by column, as ``POST .../rows`` takes them (``turnstile.planning.core.shown_rows``).
        complete: whether these are all rows of the table.
        cut: how many values are not shown whole.
        columns_left_out: how many columns are not shown.
    """

    table_id: str
    version: int
    columns: list[str]
    rows: list[dict[str, Any]]
    complete: bool
    cut: int
    columns_left_out: int


PredicateOf = Predicate | Callable[[TableColumns], Predicate] | None
"""A predicate, or a function that makes one of the table's columns as of the planned version; None:
all files."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: the data behind the plan (``source``), its version and predicate, and
    the leaf and row."""

    source: str
    version: int
    predicate: str
    leaf: int
    row: int


class ScanPlanner(Protocol):
    """Answers which files a scan needs (``turnstile.planning.planner.Planner``)."""

    def plan_appends(
        self,
        table: TableHead,
        after: int,
        version: int,
        predicate: PredicateOf = None,
        *,
        page: str | None = None,
        limit: int = MAX_FILES,
        stats: bool = False,
    ) -> Plan:
        """Returns the files that the versions after ``after``, up to ``version``, added, as
        ``plan`` does (``turnstile.planning.appends``)."""

    def plan(
        self,
        table: TableHead,
        predicate: PredicateOf = None,
        *,
        version: int | None = None,
        at_ms: int | None = None,
        page: str | None = None,
        limit: int = MAX_FILES,
        stats: bool = False,
        explain: bool = False,
    ) -> Plan:
        """Returns the files of a table that may have rows which satisfy ``predicate``.

        Args:
            version, at_ms: the version, or a moment; neither: the latest.
            page: ``next_page`` of the page before; the predicate has to be the same, and the
                version follows from it.
            limit: files on the page at most.
            stats: whether files have their statistics.
            explain: whether ``statistics.dropped`` is filled.

        Raises:
            NotFound: there is no such version, or its log was cleaned up.
            InvalidRequest: the page is none of this plan's.
            UnsupportedTable: the log cannot be read.
        """

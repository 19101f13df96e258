"""Many tables that come under the catalog, or leave it: each by the service's own import or export,
which a crash or a lost answer cannot hurt, and each with an outcome of its own."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.errors import CliError, Exit, usage
from turnstile_cli.names import NamespaceName, TableName, namespace_path, namespaces_path
from turnstile_cli.sources import ICEBERG, LogStore, SourceTable, name_in_catalog

PAUSES: Final = (0.5, 2.0, 5.0)
"""Seconds before a table is tried again that other changes of the catalog, or throttling, were in
the way of."""

_MISSING_NAMESPACE: Final = "NoSuchNamespace"


@dataclass
class Transfer:
    """A table that comes or goes, and how it went: ``outcome`` is imported, imported before,
    exported, possible (a dry run's), refused, failed or unknown."""

    name: TableName
    source_name: str
    location: str
    source: SourceTable | None = None
    outcome: str = ""
    problem: str = ""
    remedy: str = ""

    def refuse(self, problem: str, remedy: str, outcome: str = "refused") -> None:
        """It cannot be done."""
        self.outcome = outcome
        self.problem = problem
        self.remedy = remedy

    def document(self) -> dict[str, str]:
        """The table for programs."""
        kind = self.source.format if self.source else "delta"
        row = {"table": str(self.name), "source": self.source_name, "location": self.location, "format": kind}
        row["outcome"] = self.outcome
        return {**row, "problem": self.problem, "remedy": self.remedy} if self.problem else row


@dataclass(frozen=True)
class Target:
    """The target of ``--all``: a catalog, and the namespace above the source's namespaces."""

    catalog: str
    levels: tuple[str, ...]

    @classmethod
    def parse(cls, into: str) -> Target:
        if "." not in into:
            return cls(NamespaceName.parse(f"{into}.any").catalog, ())
        name = NamespaceName.parse(into)
        return cls(name.catalog, tuple(name.namespace.split(".")))

    def name_of(self, table: SourceTable) -> TableName:
        """A table that is in no namespace of the source goes to ``default``, unless --into names
        one."""
        levels = (*self.levels, *map(name_in_catalog, table.levels)) or ("default",)
        return TableName(self.catalog, ".".join(levels), name_in_catalog(table.name))


def source_name(table: SourceTable) -> str:
    """The table's full name in the source, which ``--match`` is compared with."""
    return ".".join((*table.levels, table.name))


class BulkImport:
    """Imports the tables of a source, each by the service's own import, which a crash or a lost
    answer cannot hurt."""

    def __init__(
        self, api: Api, target: Target, log_store: LogStore | None, *, dry_run: bool, take_over: bool = False
    ) -> None:
        self._api = api
        self._target = target
        self._log_store = log_store
        self._dry_run = dry_run
        self._take_over = {"take_over": True} if take_over else {}
        self._to_be_created = set[str]()

    def prepare(self, tables: list[SourceTable]) -> list[Transfer]:
        """The tables with their names in the catalog. Clashing names are refused; missing
        namespaces are created, or would be."""
        rows = [Transfer(self._target.name_of(table), source_name(table), table.location, table) for table in tables]
        names = Counter(str(row.name).lower() for row in rows)
        for row, table in zip(rows, tables, strict=True):
            if table.problem is not None:
                row.refuse(*table.problem)
            elif names[str(row.name).lower()] > 1:
                others = [
                    other.source_name
                    for other in rows
                    if other is not row and str(other.name).lower() == str(row.name).lower()
                ]
                row.refuse(
                    f"{', '.join(others)} would get the same name", "import them one by one, under names of your choice"
                )
        for namespace in sorted({row.name.namespace for row in rows if not row.outcome}):
            levels = namespace.split(".")
            for depth in range(1, len(levels) + 1):
                self._ensure(".".join(levels[:depth]))
        return rows

    def _ensure(self, namespace: str) -> None:
        catalog = self._target.catalog
        if namespace in self._to_be_created:
            return
        try:
            self._api.get(namespace_path(catalog, namespace))
            return
        except CliError as error:
            if error.type != _MISSING_NAMESPACE:
                raise
        self._to_be_created.add(namespace)
        if not self._dry_run:
            try:
                self._api.change("POST", namespaces_path(catalog), {"name": namespace})
            except CliError as error:
                if error.status != 409:
                    raise

    def run(self, row: Transfer) -> None:
        """Import the table, or say whether it can be; raises CliError."""
        assert row.source is not None, "prepare() names it"
        if row.source.format == ICEBERG:
            self._register(row, row.source)
            return
        path = f"{row.name.namespace_path}/imports"
        body = {"name": row.name.table, "location": row.location, **self._take_over}
        report = self._api.post(path, {**body, "dry_run": True})
        problems = [problem for problem in report["problems"] if not self._is_created_first(problem)]
        if problems:
            row.refuse(problems[0]["message"], problems[0]["remedy"] or "")
            return
        if report["version"] is None:  # the log of a table that is here under this name is not read
            row.outcome = "imported before"
            return
        require_complete(self._log_store, row.location)
        if not self._dry_run:
            self._api.post(path, {**body, "dry_run": False})
        row.outcome = "possible" if self._dry_run else "imported"

    def _is_created_first(self, problem: dict[str, Any]) -> bool:
        """Whether a dry run complains about a namespace that the import itself would create."""
        return self._dry_run and problem["type"] == _MISSING_NAMESPACE

    def _register(self, row: Transfer, table: SourceTable) -> None:
        """An Iceberg table: its catalog entry is all that is made."""
        try:
            entry = self._api.get(f"{row.name.path}/entry")
        except CliError as error:
            if error.exit is not Exit.NOT_FOUND:
                raise
        else:
            if entry.get("format") == ICEBERG and _folder(entry.get("location")) == _folder(table.location):
                row.outcome = "imported before"
            else:
                row.refuse(
                    f"{row.name} is another table or view already",
                    "rename that one, or import this one with --into another namespace",
                )
            return
        if self._dry_run:
            row.outcome = "possible"
            return
        namespace = quote("\x1f".join(row.name.namespace.split(".")), safe="")
        body = {"name": row.name.table, "metadata-location": table.metadata_location}
        self._api.change(
            "POST", f"/iceberg/v1/{quote(row.name.catalog, safe='')}/namespaces/{namespace}/register", body
        )
        row.outcome = "imported"


def _folder(location: str | None) -> str:
    """A location in a normal form: S3's scheme unified, and no slashes at the end."""
    scheme, _, path = (location or "").rstrip("/").partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{path}"


def require_complete(log_store: LogStore | None, location: str) -> None:
    """Raises CliError if the newest commit is in the log store alone: the import would take its
    version for another commit."""
    file = log_store.incomplete(location) if log_store is not None else ""
    if file:
        raise CliError(
            Exit.REFUSED,
            f"{location}: the log store has a commit, {file}, that was not copied into _delta_log",
            remedy="stop the writers, read the table once by a session with the log store, which completes it, and "
            "import again",
            type="LogStoreIncomplete",
        )


def delta_tables(api: Api, namespace: NamespaceName) -> Iterator[tuple[TableName, str]]:
    """Name and location of each Delta table in a namespace and below it."""
    for row in api.pages(f"{namespace.path}/tables", "tables"):
        if row.get("format", "delta") == "delta":
            yield TableName(namespace.catalog, namespace.namespace, row["name"]), row.get("location") or ""
    for child in api.pages(namespaces_path(namespace.catalog), "namespaces", parent=namespace.namespace):
        yield from delta_tables(api, NamespaceName(namespace.catalog, child["name"]))


def _attempt(row: Transfer, run: Callable[[Transfer], None]) -> None:
    """Run a transfer, with retries where they may help. Failures are in the row; raises only if the
    service is gone."""
    for pause in (*PAUSES, None):
        try:
            return run(row)
        except CliError as error:
            if error.exit is Exit.UNREACHABLE:
                raise
            if pause is None or not (
                error.exit is Exit.UNKNOWN or error.status in (429, 503) or error.type == "ConcurrentChange"
            ):
                outcome = {Exit.UNKNOWN: "unknown", Exit.FAILURE: "failed"}.get(error.exit, "refused")
                return row.refuse(error.message, error.remedy, outcome)
        time.sleep(pause)
    raise AssertionError("the last attempt has no pause")


def run_all(rows: list[Transfer], run: Callable[[Transfer], None], jobs: int, report: Path | None, what: str) -> None:
    """Run the transfers without an outcome side by side, and show the progress. Each is recorded in
    the report's file when it ends. Raises CliError when there is no service."""
    with _lines(report) as note, ThreadPoolExecutor(jobs) as pool, out.progress(what) as shown:
        done = [row for row in rows if row.outcome]
        for row in done:
            note(row)
        waiting = {pool.submit(_attempt, row, run): row for row in rows if not row.outcome}
        try:
            for number, future in enumerate(as_completed(waiting), start=len(done) + 1):
                future.result()
                note(waiting[future])
                shown(number, len(rows))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _lines(report: Path | None) -> Iterator[Callable[[Transfer], None]]:
    """Notes each table in the report's file at once, so that the report of a run that was cut off
    is whole up to there."""
    if report is None:
        yield lambda _: None
        return
    try:
        file = report.open("w", encoding="utf-8")
    except OSError as error:
        raise usage(f"--report {report} cannot be written: {error}", "name a file in a folder that is there") from error
    with file:

        def note(row: Transfer) -> None:
            file.write(json.dumps(row.document(), ensure_ascii=False) + "\n")
            file.flush()

        yield note

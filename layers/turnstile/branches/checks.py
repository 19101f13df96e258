"""Checks the expectations of the tables that a branch changes, before it is promoted
(``expectations.table_check``): of every row of the files that the branch added, or of the whole
table.

The expectations of the catalog's table and of its namespaces are checked, and also the expectations
that the branch adds: a program that writes to a branch cannot remove an expectation.

Rows from before the branch are not read again. A comparison reads a bounded number of bytes. An
expectation that is not checked refuses the promotion, unless the table's property allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from turnstile.branches.checked_tables import CheckedTable, CheckedTables
from turnstile.branches.comparison import Comparer, Comparison
from turnstile.branches.namespaces import NamespaceExpectations
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.expectations.core.conditions import read_expectations
from turnstile.expectations.table_check import TableCheck

ChangeOfView = Callable[[View], Edit]


class Checked(msgspec.Struct, frozen=True):
    """An expectation of a table that a promotion would change: the versions and the outcome of the
    check.

    Attributes:
        table: its name without the catalog; ``version`` of the branch's table, of an Iceberg table
            its sequence number. For an expectation of no table its namespace, and 0.
        expectation: its name; ``condition`` its text. Both empty for a property that is none.
        outcome: ``unchecked``: it could not be checked; that refuses the promotion if ``refuses``.
        problem: rows, files and examples that break it, or why it is not checked.
    """

    table: str
    version: int
    expectation: str
    condition: str
    outcome: Literal["passed", "broken", "unchecked"]
    refuses: bool = False
    problem: str | None = None

    @property
    def reason(self) -> str:
        """The reason that a refused promotion states."""
        if not self.expectation:
            return self.problem or ""
        said = f"expectation '{self.expectation}' ({self.condition}) of '{self.table}'"
        is_broken = self.outcome == "broken"
        return f"{said} {'is broken' if is_broken else 'could not be checked'}: {self.problem}"


class Checker:
    """Checks expectations. One per comparison: it counts the bytes that are read.

    Attributes:
        created: the latest versions of the Delta tables that the branch created, by uuid.
        versions: of these the ones with expectations, with the version that was checked.
        passed: the names of the expectations that a table satisfies, by uuid.
        guard: returns a change of the catalog that is refused where its namespaces have other
            expectations than the checked ones.
    """

    def __init__(self, catalog: CatalogServices, comparer: Comparer) -> None:
        self._catalog = catalog
        self._comparer = comparer
        self.created: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.passed: dict[str, list[str]] = {}
        self.guard: Callable[[ChangeOfView], ChangeOfView] = lambda change: change

    def check(self, plan: Comparison) -> list[Checked]:
        """Returns the outcomes of all expectations. Costs two requests for every hundred Delta
        tables and two for each Iceberg table, and the reads of files of tables with expectations.
        Raises TooLarge, StorageFault."""
        tables = CheckedTables(self._catalog, self._comparer, plan)
        namespaces = NamespaceExpectations(self._catalog.reader.store, plan)
        found = [checked for table in tables.all(namespaces.expects) for checked in self._of_table(table, namespaces)]
        self.created = tables.created
        self.versions = tables.versions
        self.guard = namespaces.guard
        return [*found, *_of_namespaces(namespaces, tables)]

    def _of_table(self, table: CheckedTable, namespaces: NamespaceExpectations) -> Iterator[Checked]:
        name = dotted_name(*table.path)
        expectations = namespaces.of(table.path, table.source.columns)
        problems: list[str] = []
        for properties in table.properties:
            found, refusals = read_expectations(properties)
            expectations += found
            problems += [f"'{name}': {error.public_message}; {error.remedy}" for error in refusals]
        for problem in dict.fromkeys(problems):
            yield Checked(name, table.version, "", "", "unchecked", True, problem)
        expectations = list(dict.fromkeys(expectations))
        check = TableCheck(table.source, self._catalog.world.clock.now_ms())
        outcomes = check.problems([each.condition for each in expectations], table.added)
        for expectation, outcome in zip(expectations, outcomes, strict=True):
            about = name, table.version, expectation.name, expectation.text[:200]
            if outcome is None:
                passed = self.passed.setdefault(table.table_id, [])
                passed += [] if expectation.name in passed else [expectation.name]
                yield Checked(*about, "passed")
            elif isinstance(outcome, str):
                yield Checked(*about, "broken", True, outcome)
            else:
                yield Checked(*about, "unchecked", expectation.unchecked == "refuse", str(outcome)[:300])


def _of_namespaces(namespaces: NamespaceExpectations, tables: CheckedTables) -> Iterator[Checked]:
    """The properties of namespaces that are no expectations, and expectations of no table."""
    for name, problem in namespaces.problems():
        yield Checked(name, 0, "", "", "unchecked", True, f"'{name}': {problem}")
    for name, each, looked in namespaces.of_no_table(tables.columns_below):
        problem = f"none of {looked} tables of the namespace has its columns: correct it, or set .unchecked to allow"
        yield Checked(name, 0, each.name, each.text[:200], "unchecked", each.unchecked == "refuse", problem)

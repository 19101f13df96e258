"""Checks the expectations of the tables that a branch changes, before it is promoted
(``expectations.table_check``): of every row of the files that the branch added, or of the whole
table.

The expectations of the catalog's table and of its namespaces are checked, and also the expectations
that the branch adds: a program that writes to a branch cannot remove an expectation.

Rows from before the branch are not read again. A comparison reads a bounded number of bytes. For an
expectation that is beyond it a record of the same state decides (``records``), which never replaces
an outcome of the server. One that is not checked refuses the promotion, unless the table's property
allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from turnstile.branches.checked_tables import CheckedTable, CheckedTables
from turnstile.branches.comparison import Comparer, Comparison
from turnstile.branches.namespaces import NamespaceExpectations
from turnstile.branches.records import Answers, Record, Records, state_of
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.expectations.core.conditions import Condition, Expectation, read_expectations
from turnstile.expectations.core.findings import Finding, Question, finding_problem, question_of
from turnstile.expectations.table_check import Outcome, TableCheck
from turnstile.store.core.errors import InvalidRequest

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
        question: of one that is not checked, or that a record says is broken, for a program that
            reads the table; None: its findings would not count.
        by, at: the principal and the time (ms) of the record that decided.
    """

    table: str
    version: int
    expectation: str
    condition: str
    outcome: Literal["passed", "broken", "unchecked"]
    refuses: bool = False
    problem: str | None = None
    question: Question | None = None
    by: str | None = None
    at: int | None = None

    @property
    def reason(self) -> str:
        """The reason that a refused promotion states."""
        if not self.expectation:
            return self.problem or ""
        said = f"expectation '{self.expectation}' ({self.condition}) of '{self.table}'"
        is_broken = self.outcome == "broken"
        return f"{said} {'is broken' if is_broken else 'could not be checked'}: {self.problem}"


class _Result(msgspec.Struct, frozen=True):
    """An outcome of the server; ``condition`` None for a property that is no expectation."""

    checked: Checked
    table_id: str = ""
    condition: Condition | None = None


class Checker:
    """Checks expectations. One per comparison: it counts the bytes that are read.

    Attributes:
        state: of the changes that were checked; ``used``: the findings of an offered record that
            decided.
        created: the latest versions of the Delta tables that the branch created, by uuid.
        versions: of these the ones with expectations, with the version that was checked.
        passed: the names of the expectations that a table satisfies, by uuid.
        guard: returns a change of the catalog that is refused where its namespaces have other
            expectations than the checked ones.
    """

    def __init__(self, catalog: CatalogServices, comparer: Comparer) -> None:
        self._catalog = catalog
        self._comparer = comparer
        self.state = ""
        self.used: list[Finding] = []
        self.created: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.passed: dict[str, list[str]] = {}
        self.guard: Callable[[ChangeOfView], ChangeOfView] = lambda change: change

    def check(self, plan: Comparison, offered: Record | None = None) -> list[Checked]:
        """Returns the outcomes of all expectations. Costs two requests for every hundred Delta
        tables and two for each Iceberg table, the reads of files of tables with expectations, and
        one request where records may decide. Raises TooLarge, StorageFault.

        Args:
            offered: a record that is not written yet.
        """
        tables = CheckedTables(self._catalog, self._comparer, plan)
        namespaces = NamespaceExpectations(self._catalog.reader.store, plan)
        found = [each for table in tables.all(namespaces.expects) for each in self._of_table(table, namespaces)]
        self.created = tables.created
        self.versions = tables.versions
        self.guard = namespaces.guard
        self.state = state_of(plan, tables.created)
        checks = self._by_records(found, plan, offered)
        for each, checked in zip(found, checks, strict=True):
            if checked.outcome == "passed":
                passed = self.passed.setdefault(each.table_id, [])
                passed += [] if checked.expectation in passed else [checked.expectation]
        return [*checks, *_of_namespaces(namespaces, tables)]

    def _of_table(self, table: CheckedTable, namespaces: NamespaceExpectations) -> Iterator[_Result]:
        name = dotted_name(*table.path)
        expectations = namespaces.of(table.path, table.source.columns)
        problems: list[str] = []
        for properties in table.properties:
            found, refusals = read_expectations(properties)
            expectations += found
            problems += [f"'{name}': {error.public_message}; {error.remedy}" for error in refusals]
        for problem in dict.fromkeys(problems):
            yield _Result(Checked(name, table.version, "", "", "unchecked", True, problem))
        expectations = list(dict.fromkeys(expectations))
        check = TableCheck(table.source, self._catalog.world.clock.now_ms())
        outcomes = check.problems([each.condition for each in expectations], table.added)
        for expectation, outcome in zip(expectations, outcomes, strict=True):
            checked = _outcome_of(name, table, expectation, outcome)
            yield _Result(checked, table.table_id, expectation.condition)

    def _by_records(self, found: Sequence[_Result], plan: Comparison, offered: Record | None) -> list[Checked]:
        """Returns the outcomes, of which records of this state decide the unchecked ones."""
        if all(each.checked.question is None for each in found):
            return [each.checked for each in found]
        records = Records(self._catalog.world, plan).read(self.state)
        answers = Answers([*records, *([] if offered is None else [offered])])
        return [self._by_record(each.checked, each.condition, answers, offered) for each in found]

    def _by_record(
        self, checked: Checked, condition: Condition | None, answers: Answers, offered: Record | None
    ) -> Checked:
        if condition is None or checked.question is None:
            return checked
        answer = answers.find(checked.table, checked.expectation, checked.question.text)
        if answer is None:
            return checked
        finding, record = answer
        if record is offered:
            self.used.append(finding)
        problem = finding_problem(condition, finding, self._catalog.world.clock.now_ms())
        of_record = {"problem": problem, "by": record.by, "at": record.at}
        if problem is None:
            return msgspec.structs.replace(checked, outcome="passed", refuses=False, question=None, **of_record)
        return msgspec.structs.replace(checked, outcome="broken", refuses=True, **of_record)


def _outcome_of(name: str, table: CheckedTable, expectation: Expectation, outcome: Outcome) -> Checked:
    about = name, table.version, expectation.name, expectation.text[:200]
    if outcome is None:
        return Checked(*about, "passed")
    if isinstance(outcome, str):
        return Checked(*about, "broken", True, outcome)
    refuses = expectation.unchecked == "refuse"
    fits = not isinstance(outcome, InvalidRequest)
    question = question_of(expectation, table.source.columns) if fits else None
    return Checked(*about, "unchecked", refuses, str(outcome)[:300], question)


def _of_namespaces(namespaces: NamespaceExpectations, tables: CheckedTables) -> Iterator[Checked]:
    """The properties of namespaces that are no expectations, and expectations of no table."""
    for name, problem in namespaces.problems():
        yield Checked(name, 0, "", "", "unchecked", True, f"'{name}': {problem}")
    for name, each, looked in namespaces.of_no_table(tables.columns_below):
        problem = f"none of {looked} tables of the namespace has its columns: correct it, or set .unchecked to allow"
        yield Checked(name, 0, each.name, each.text[:200], "unchecked", each.unchecked == "refuse", problem)

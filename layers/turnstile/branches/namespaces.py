"""The expectations of namespaces, which hold for every table below them.

The expectations of the catalog's namespace are checked, and also the expectations that the branch
adds or changes. A table without a column that an expectation names is not concerned. An expectation
that concerns no table of its namespace is misspelled, or too early: it is not checked, which
refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from turnstile.branches.comparison import Comparison
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import ICEBERG_TABLE, TABLE, Namespace
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import View
from turnstile.catalog.store import CatalogStore
from turnstile.delta.core.content import expectations_among
from turnstile.expectations.core.conditions import Expectation, read_expectations
from turnstile.expectations.core.validity import is_about
from turnstile.planning.core.predicates import TableColumns
from turnstile.store.core.errors import ErrorType, StateConflict


class NamespaceExpectations:
    """The expectations of the namespaces above the tables that a branch changes. Costs one request
    for every hundred namespaces that are not cached."""

    def __init__(self, store: CatalogStore, plan: Comparison) -> None:
        self._store = store
        self._plan = plan
        self._paths = sorted({path[:end] for path in _changed_tables(plan) for end in range(1, len(path))})
        self._expectations: dict[Path, list[Expectation]] = {}
        self._problems: dict[Path, list[str]] = {}
        self._concerned: set[tuple[Path, Expectation]] = set()
        self._known = self._properties(plan.catalog)
        for properties in (self._known, self._properties(plan.branch)):
            for path in self._paths:
                self._read(path, properties[path])

    def expects(self, path: Path) -> bool:
        """Whether a namespace above the table ``path`` has expectations."""
        return any(self._expectations.get(path[:end]) for end in range(1, len(path)))

    def of(self, path: Path, columns: TableColumns) -> list[Expectation]:
        """Returns the expectations that concern the table ``path``, of the outermost namespace
        first."""
        found: list[Expectation] = []
        for end in range(1, len(path)):
            for each in self._expectations.get(path[:end], ()):
                if is_about(each.condition, columns):
                    self._concerned.add((path[:end], each))
                    found.append(each)
        return found

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields the names of namespaces with properties that are no expectations, and why."""
        for path, problems in self._problems.items():
            yield from ((dotted_name(*path), problem) for problem in dict.fromkeys(problems))

    def of_no_table(
        self, columns_below: Callable[[Path], Iterable[TableColumns]]
    ) -> Iterator[tuple[str, Expectation, int]]:
        """Yields the expectations that concern no table of their namespace: its name, the
        expectation, and the number of tables that were looked at. Call it after ``of`` was called
        for every table; if each expectation concerned one of them, nothing is read."""
        for path, expectations in self._expectations.items():
            left = [each for each in expectations if (path, each) not in self._concerned]
            looked = 0
            for columns in columns_below(path) if left else ():
                looked += 1
                left = [each for each in left if not is_about(each.condition, columns)]
                if not left:
                    break
            yield from ((dotted_name(*path), each, looked) for each in left)

    def guard(self, change: Callable[[View], Edit]) -> Callable[[View], Edit]:
        """Returns ``change``, which raises StateConflict where the catalog's namespaces got other
        expectations meanwhile."""

        def change_if_same(view: View) -> Edit:
            if self._properties(view.tree) != self._known:
                problem = "the expectations of a namespace were changed while the branch was promoted"
                remedy = "send the request again"
                raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy=remedy, retry_after_ms=0)
            return change(view)

        return change_if_same

    def _properties(self, tree: Tree) -> dict[Path, dict[str, str]]:
        entries = {path: entry for path in self._paths if (entry := tree.find(path)) is not None}
        entities = self._store.entities(tree.catalog, [entry.obj for entry in entries.values()])
        found: dict[Path, dict[str, str]] = {path: {} for path in self._paths}
        for path, entry in entries.items():
            entity = entities[entry.obj]
            if isinstance(entity, Namespace):
                found[path] = expectations_among(entity.properties)
        return found

    def _read(self, path: Path, properties: dict[str, str]) -> None:
        found, refusals = read_expectations(properties)
        known = self._expectations.setdefault(path, [])
        known += [each for each in found if each not in known]
        self._problems.setdefault(path, []).extend(f"{error.public_message}; {error.remedy}" for error in refusals)


def _changed_tables(plan: Comparison) -> Iterator[Path]:
    yield from (table.path for table in plan.tables if not table.change.is_empty)
    yield from (each.path for each in plan.names if each.after is not None and each.of in (TABLE, ICEBERG_TABLE))

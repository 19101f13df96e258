"""Checks the expectations of the tables that a branch changes, before it is promoted
(``expectations.table_check``): of every row of the files that the branch added, or of the whole
table.

The expectations of the catalog's table are checked, and those that the branch adds: a program that
writes to a branch cannot remove an expectation.

Rows from before the branch are not read again. A comparison reads a bounded number of bytes. An
expectation that is not checked refuses the promotion, unless the table's property allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

import msgspec

from turnstile.branches.comparison import Comparer, Comparison
from turnstile.branches.core.paths import Action
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import TableHead
from turnstile.expectations.core.conditions import PREFIX, Expectation, read_expectations
from turnstile.expectations.delta_source import DeltaSource
from turnstile.expectations.table_check import TableCheck
from turnstile.planning.read_budget import ReadBudget

READ_BYTES: Final = 64 * 1024 * 1024
"""Of the files that one comparison reads."""


class Checked(msgspec.Struct, frozen=True):
    """An expectation of a table that a promotion would change: the versions and the outcome of the
    check.

    Attributes:
        table: its name without the catalog; ``version`` of the branch's table.
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


class CheckedTable(msgspec.Struct, frozen=True):
    """A table that a promotion changes or creates.

    Attributes:
        name: without the catalog.
        head: the branch's.
        properties: those with expectations, of the catalog's table and of the branch's.
        added: the files that the branch added; None: all, since the branch created the table.
    """

    name: str
    head: TableHead
    properties: list[dict[str, str]]
    added: list[Action] | None


class Checker:
    """Checks expectations. One per comparison: it counts what is read.

    Attributes:
        created: the latest versions of the Delta tables that the branch created, by uuid.
        versions: of these the ones with expectations, with the version that was checked.
        passed: the names of the expectations that a table satisfies, by uuid.
    """

    def __init__(self, catalog: CatalogServices, comparer: Comparer) -> None:
        self._world = catalog.world
        self._metadata = catalog.metadata
        self._comparer = comparer
        self._budget = ReadBudget(READ_BYTES, small_files=True)
        self.created: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.passed: dict[str, list[str]] = {}

    def check(self, plan: Comparison) -> list[Checked]:
        """Returns the outcomes of all expectations. Costs two requests for every hundred tables,
        and the reads of files of tables with expectations."""
        tables = [*self._changed_tables(plan), *self._created_tables(plan)]
        return [checked for table in tables for checked in self._of_table(table)]

    def _changed_tables(self, plan: Comparison) -> Iterator[CheckedTable]:
        """The tables with commits on the branch, if they have expectations."""
        tables = [table for table in plan.tables if not table.change.is_empty]
        known = self._properties([head for table in tables for head in (table.theirs, table.own)])
        for table in tables:
            properties = [known[table.theirs.table_id], known[table.own.table_id]]
            if any(properties):
                added = list(table.change.added.values())
                yield CheckedTable(dotted_name(*table.path), table.own, properties, added)

    def _created_tables(self, plan: Comparison) -> Iterator[CheckedTable]:
        """The tables that the branch created, if they, or the tables that they replace, have
        expectations."""
        made = [
            (each, after.table_id)
            for each in plan.names
            if (after := each.after) is not None and each.of == TABLE and each.kind in ("created", "replaced")
        ]
        replaced = [each.before.table_id for each, _ in made if each.before is not None]
        heads = self._heads([*(id for _, id in made), *replaced])
        known = self._properties(list(heads.values()))
        self.created = {id: heads[id].latest for _, id in made if id in heads}
        for each, id in made:
            before = {} if each.before is None else known.get(each.before.table_id, {})
            if id in heads and (before or known[id]):
                name = dotted_name(*each.path)
                head = self._comparer.publish(id, name)
                self.created[id] = self.versions[id] = head.latest
                yield CheckedTable(name, head, [before, self._properties([head])[id]], None)

    def _heads(self, ids: Sequence[str]) -> dict[str, TableHead]:
        """The HEADs of tables; an external one has none."""
        keys = {self._world.space.table(id): id for id in ids}
        rows = self._world.refs.read_many(list(keys)) if keys else {}
        return {keys[key]: TableHead.from_row(row) for key, row in rows.items()}

    def _properties(self, heads: Sequence[TableHead]) -> dict[str, dict[str, str]]:
        """The properties with expectations, by the tables' uuids. The catalog and its branch share
        their objs."""
        wanted = {head.metadata for head in heads}
        known = self._metadata.get_many(heads[0].catalog, wanted) if heads else {}
        found = {}
        for head in heads:
            metadata = known.get(head.metadata) or self._metadata.get(head.catalog, head.metadata)
            configuration = metadata.metadata.get("configuration") or {}
            found[head.table_id] = {key: value for key, value in configuration.items() if key.startswith(PREFIX)}
        return found

    def _of_table(self, table: CheckedTable) -> Iterator[Checked]:
        expectations: list[Expectation] = []
        problems: list[str] = []
        for properties in table.properties:
            found, refusals = read_expectations(properties)
            expectations += [each for each in found if each not in expectations]
            problems += [f"'{table.name}': {error.public_message}; {error.remedy}" for error in refusals]
        head = table.head
        for problem in dict.fromkeys(problems):
            yield Checked(table.name, head.latest, "", "", "unchecked", True, problem)
        metadata = self._metadata.get(head.catalog, head.metadata)
        source = DeltaSource(self._world.storages, self._budget, head.location, metadata, latest=head.latest)
        added = None if table.added is None else partial(map, source.file, table.added)
        check = TableCheck(source, self._world.clock.now_ms())
        outcomes = check.problems([each.condition for each in expectations], added)
        for expectation, outcome in zip(expectations, outcomes, strict=True):
            about = table.name, head.latest, expectation.name, expectation.text[:200]
            if outcome is None:
                self.passed.setdefault(head.table_id, []).append(expectation.name)
                yield Checked(*about, "passed")
            elif isinstance(outcome, str):
                yield Checked(*about, "broken", True, outcome)
            else:
                yield Checked(*about, "unchecked", expectation.unchecked == "refuse", str(outcome)[:300])

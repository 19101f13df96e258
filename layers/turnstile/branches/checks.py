"""Checks the expectations of the tables that a branch changes, before it is promoted.

    every row       of the files that the branch added: by the statistics of a file where they
                    decide, otherwise by its rows
    whole table     numbers of rows and of nulls by the statistics of all its files; keys by their
                    values

The expectations of the catalog's table are checked, and those that the branch adds: a program that
writes to a branch cannot remove an expectation (``branches.core.expectations``).

Rows from before the branch are not read again. A comparison reads a bounded number of bytes. An
expectation that is not checked refuses the promotion, unless the table's property allows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from turnstile.branches.comparison import Comparer, Comparison
from turnstile.branches.core.expectations import (
    PREFIX,
    Condition,
    EveryRow,
    Expectation,
    NullFraction,
    RowCount,
    Unique,
    expectations_of,
)
from turnstile.branches.core.paths import Action
from turnstile.branches.core.row_outcomes import NotEvaluated, evaluate
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.actions import Add
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.parquet import UNDECODABLE
from turnstile.maintenance.state import TableState, open_state
from turnstile.planning.core.predicates import TRUE, Predicate, TableColumns, TypedColumn, columns_of, outcomes
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.planning.core.sql import predicate_parser
from turnstile.planning.file_rows import FileRows, ReadBudget
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import Storages
from turnstile_predicates.file_stats import Field
from turnstile_predicates.predicates import Column, Kind
from turnstile_rows.definitions import Definition, check_readable
from turnstile_rows.errors import TableError

READ_BYTES: Final = 64 * 1024 * 1024
"""Of the files that one comparison reads."""
FILES_MAX: Final = 200_000
"""Files of a table whose statistics are added up."""
UNIQUE_ROWS: Final = 2_000_000
"""Rows of a table whose keys are compared."""
EXAMPLES: Final = 5
"""Rows that a refusal shows."""
_BATCH: Final = 65_536


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

    ``versions``: of the tables that the branch created and that have expectations, the version that
    was checked, by uuid; ``passed``: names of the expectations that a table satisfies, by uuid.
    """

    def __init__(self, catalog: CatalogServices, comparer: Comparer) -> None:
        self._world = catalog.world
        self._metadata = catalog.metadata
        self._comparer = comparer
        self._budget = ReadBudget(READ_BYTES, small_files=True)
        self.versions: dict[str, int] = {}
        self.passed: dict[str, list[str]] = {}

    def reasons(self, plan: Comparison) -> list[str]:
        """Returns the reasons why the branch cannot be promoted. Costs two requests for every
        hundred tables, and the reads of files of tables with expectations."""
        tables = [*self._changed_tables(plan), *self._created_tables(plan)]
        return [reason for table in tables for reason in self._of_table(table)]

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
        for each, id in made:
            before = {} if each.before is None else known.get(each.before.table_id, {})
            if id in heads and (before or known[id]):
                name = dotted_name(*each.path)
                head = self._comparer.publish(id, name)
                self.versions[id] = head.latest
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

    def _of_table(self, table: CheckedTable) -> Iterator[str]:
        expectations: list[Expectation] = []
        problems: list[str] = []
        for properties in table.properties:
            try:
                expectations += [each for each in expectations_of(properties) if each not in expectations]
            except InvalidRequest as error:
                problems.append(f"'{table.name}': {error.public_message}; {error.remedy}")
        yield from dict.fromkeys(problems)
        head = table.head
        check = TableCheck(self._world.storages, self._budget, head, self._metadata.get(head.catalog, head.metadata))
        for expectation in expectations:
            said = f"expectation '{expectation.name}' ({expectation.text[:200]}) of '{table.name}'"
            try:
                problem = check.problem(expectation.condition, table.added)
            except (InvalidRequest, NotEvaluated, TableError, *UNDECODABLE) as error:
                if expectation.unchecked == "refuse":
                    yield f"{said} could not be checked: {str(error)[:300]}"
                continue
            if problem is None:
                self.passed.setdefault(head.table_id, []).append(expectation.name)
            else:
                yield f"{said} is broken: {problem}"


class TableCheck:
    """One table of a branch while its expectations are checked. Its log is opened at most once."""

    def __init__(self, storages: Storages, budget: ReadBudget, head: TableHead, metadata: DeltaMetadata) -> None:
        self._storages = storages
        self._budget = budget
        self._head = head
        self._metadata = metadata

    @cached_property
    def _definition(self) -> Definition:
        actions = {"protocol": self._metadata.protocol, "metaData": self._metadata.metadata}
        return Definition.of_actions(actions)

    @cached_property
    def _columns(self) -> TableColumns:
        return TableColumns(self._metadata.metadata)

    @cached_property
    def _state(self) -> TableState:
        return open_state(self._storages.open(self._head.location), self._head.latest)

    def problem(self, condition: Condition, added: list[Action] | None) -> str | None:
        """Returns how the table breaks a condition, with the files that were added to it (None: all
        of its files); None if it satisfies it. Raises InvalidRequest for a column or predicate that
        the table cannot have, NotEvaluated, TableError for a feature that is not read here, and
        pyarrow's exceptions for a file that cannot be read."""
        check_readable(self._definition)
        match condition:
            case EveryRow(predicate=text):
                files = [msgspec.to_builtins(file) for file in self._files()] if added is None else added
                return self._every_row(predicate_parser(text)(self._columns), files)
            case RowCount():
                rows = sum(_rows_of(file) for file in self._files())
                return None if condition.holds(rows) else f"the table has {rows} rows"
            case NullFraction(column=name):
                return self._null_fraction(condition, self._columns.find_column(name))
            case Unique(columns=names):
                return self._unique([self._columns.find_column(name).name for name in names])

    # -- every row ----------------------------------------------------------------------------------------------------

    def _every_row(self, predicate: Predicate, added: Sequence[Action]) -> str | None:
        own = [column[0] for column in sorted(columns_of(predicate))]
        names = list(dict.fromkeys([*own, *self._definition.schema.names[:3]]))
        rows = 0
        files = 0
        examples: list[dict[str, Any]] = []
        for body in added:
            ranges = self._columns.schema.ranges_of(body)
            if ranges is None or outcomes(predicate, ranges) == TRUE:
                continue
            before = rows
            for columns in self._read(msgspec.convert(body, Add), names):
                broken = self._broken_rows(predicate, names, columns)
                rows += len(broken)
                shown = broken[: EXAMPLES - len(examples)]
                examples += [row.values for row in shown_rows(names, [column.take(shown) for column in columns])]
            files += rows > before
        if not rows:
            return None
        return f"{rows} rows in {files} of {len(added)} files, such as {_example_text(examples)}"

    def _broken_rows(self, predicate: Predicate, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
        """The places of the rows that do not satisfy the predicate."""
        by_name = dict(zip(names, columns, strict=True))

        def column_of(column: Column) -> tuple[Kind | None, pa.Array]:
            field = self._columns.schema.fields.get(column)
            values = by_name[column[0]]
            return (field.kind if field else None), (pc.struct_field(values, column[1:]) if column[1:] else values)

        count = len(columns[0])
        satisfied = pc.fill_null(evaluate(predicate, column_of, count), fill_value=False)
        return pc.indices_nonzero(pc.invert(satisfied))

    # -- the whole table ----------------------------------------------------------------------------------------------

    def _files(self) -> Iterator[Add]:
        for number, file in enumerate(self._state.files()):
            if number >= FILES_MAX:
                raise NotEvaluated(f"the table has more than {FILES_MAX} files")
            yield file

    def _null_fraction(self, condition: NullFraction, column: TypedColumn) -> str | None:
        if column.field is None:
            raise NotEvaluated(f"column {column.display_name} has a type without statistics")
        rows = 0
        nulls = 0
        for file in self._files():
            count = _rows_of(file)
            rows += count
            nulls += self._nulls_of(file, column.field, count)
        return None if condition.holds(nulls, rows) else f"it is null in {nulls} of {rows} rows"

    def _nulls_of(self, file: Add, field: Field, rows: int) -> int:
        if field.physical[0] in self._definition.partitions or field.physical[0] in file.partitionValues:
            return rows if file.partitionValues.get(field.physical[0]) in (None, "") else 0
        nulls: Any = _stats(file).get("nullCount")
        for name in field.physical:
            nulls = nulls.get(name) if isinstance(nulls, dict) else None
        if type(nulls) is not int or (nulls and file.deletionVector is not None):
            raise NotEvaluated(f"the statistics of {file.path[:200]!r} do not say how many nulls it has")
        return nulls

    def _unique(self, columns: Sequence[Column]) -> str | None:
        names = list(dict.fromkeys(column[0] for column in columns))
        labels = [".".join(column) for column in columns]
        parts: list[pa.Table] = []
        rows = 0
        for file in self._files():
            for found in self._read(file, names):
                by_name = dict(zip(names, found, strict=True))
                keys = [pc.struct_field(by_name[at[0]], at[1:]) if at[1:] else by_name[at[0]] for at in columns]
                parts.append(pa.table(keys, labels).drop_null())
                rows += parts[-1].num_rows
                if rows > UNIQUE_ROWS:
                    raise NotEvaluated(f"the table has more than {UNIQUE_ROWS} rows with keys")
        if not parts:
            return None
        counted = pa.concat_tables(parts).group_by(labels).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).select(labels)
        if not twice.num_rows:
            return None
        first = twice.slice(0, EXAMPLES).combine_chunks()
        examples = [row.values for row in shown_rows(labels, [column.combine_chunks() for column in first.columns])]
        return f"{twice.num_rows} keys occur more than once, such as {_example_text(examples)}"

    def _read(self, file: Add, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        reader = FileRows(self._storages, self._head.location, self._definition, names, self._budget)
        return reader.read(file.path, file.partitionValues, file.deletionVector, _BATCH)


def _stats(file: Add) -> dict[str, Any]:
    try:
        found = json.loads(file.stats) if file.stats else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _rows_of(file: Add) -> int:
    rows = _stats(file).get("numRecords")
    if type(rows) is not int:
        raise NotEvaluated(f"the statistics of {file.path[:200]!r} do not say how many rows it has")
    return rows - (file.deletionVector.cardinality if file.deletionVector is not None else 0)


def _example_text(examples: Iterable[dict[str, Any]]) -> str:
    return ", ".join(json.dumps(example, default=str)[:200] for example in examples)

"""An index of a table whose columns come, go and change places shows exactly the files that their
statistics do not exclude (I16)."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.delta_table import Table
from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from tests.unit.planning.tables import SMALL, field, vector
from turnstile.delta.core.actions import Add, DeletionVector
from turnstile.delta.core.decide import Ratified
from turnstile.delta.log.in_force import InForce
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.planning import changes
from turnstile.planning.changes import at_once, stamp_of
from turnstile.planning.core.roots import columns_of_table
from turnstile.planning.index import _runs
from turnstile.planning.leaves import Leaf, LeafMaker, bounds_of, path_lists, scale_of
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import published_path, staged_path
from turnstile_predicates.file_stats import TableSchema

TYPES = {"day": "integer", "id": "long", "price": "decimal(10,2)", "name": "string", "weight": "double"}
SCHEMAS = (
    ("day", "id", "name"),
    ("name", "price", "id", "day"),
    ("weight", "day", "id"),
    ("price", "day", "name", "id"),
)


def metadata(columns: tuple[str, ...]) -> dict[str, Any]:
    fields = [field(name, TYPES[name]) for name in columns]
    action = {**delta.metadata()["metaData"], "partitionColumns": ["day"]}
    return {"metaData": {**action, "schemaString": json.dumps({"type": "struct", "fields": fields})}}


class Evolving:
    """``files``: by path the least and greatest value of each column that statistics name; None: no
    row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.table = Table(fake_world())
        self.world = self.table.world
        self.columns = SCHEMAS[0]
        self.files = dict[str, Any]()
        self.commit(metadata(self.columns))

    def commit(self, *actions: dict[str, Any]) -> None:
        version = self.table.head.latest + 1
        head = self.table.head
        content = delta.lines(delta.info(f"c-{version}", max(self.world.clock.now_ms(), head.last_ict + 1)), *actions)
        answer = self.table.ratifier.commit(CommitRequest(self.table.id, version, content=content))
        assert isinstance(answer, Ratified), answer
        self.world.clock.now += 60_000

    def step(self) -> None:
        actions = []
        if self.rng.random() < 0.2:
            self.columns = self.rng.choice(SCHEMAS)
            actions.append(metadata(self.columns))
        for path in self.rng.sample(sorted(self.files), min(len(self.files), self.rng.randrange(3))):
            del self.files[path]
            actions.append(delta.remove(path))
        actions += [self._add() for _ in range(self.rng.randrange(5))]
        self.commit(*actions)

    def _add(self) -> dict[str, Any]:
        path = f"f{self.rng.getrandbits(60)}"
        low = self.rng.randrange(100)
        day = self.rng.randrange(3)
        ranges: dict[str, Any] = {"day": (day, day)}
        for name in self.columns:
            if name != "day" and self.rng.random() < 0.8:
                ranges[name] = value_of(name, low), value_of(name, low + 5)
        rows = 0 if self.rng.random() < 0.05 else 3
        stats = {
            "numRecords": rows,
            "minValues": {name: plain(low) for name, (low, _) in ranges.items() if name != "day"},
            "maxValues": {name: plain(high) for name, (_, high) in ranges.items() if name != "day"},
            "nullCount": {name: 0 for name in ranges if name != "day"},
        }
        self.files[path] = ranges if rows else None
        return delta.add(path, stats=json.dumps(stats), partitionValues={"day": str(day)})

    def expected(self, name: str, value: Any) -> set[str]:
        """The files that may have a row with this value."""
        return {
            path
            for path, ranges in self.files.items()
            if ranges is not None and (name not in ranges or ranges[name][0] <= value <= ranges[name][1])
        }


def value_of(name: str, number: int) -> Any:
    return {"price": Decimal(number) / 4, "name": f"n{number:03d}" + "x" * 70, "weight": number / 8}.get(name, number)


def plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("seed", range(examples(8)))
def test_i16_columns_may_come_go_and_change_places(seed: int) -> None:
    history = Evolving(seed)
    used = 0
    planner = Planner(history.world)
    for _ in range(25):
        history.step()
        if history.rng.random() < 0.6:
            Publisher(history.world).publish(history.table.id)
        if history.rng.random() < 0.6:
            IndexUpkeep(history.world, sizes=SMALL).keep_up(history.table.head)
        for name in history.columns:
            value = value_of(name, history.rng.randrange(3 if name == "day" else 100))
            plan = planner.plan(history.table.head, lambda c, n=name, v=value: c.find_column(n).compare("=", v))
            paths = {file.path for file in plan.files}
            expected = history.expected(name, value)
            assert paths >= expected, (name, value)
            assert paths == expected or name not in ("day", "id"), (
                "a column that went and came again may have lost its bounds"
            )
            used += plan.statistics.index_version >= 0
    assert used > 30, "the log was read instead"


# -- leaves ------------------------------------------------------------------------------------------------------------


def maker(*columns: str) -> LeafMaker:
    schema = TableSchema.of(metadata(columns)["metaData"])
    return LeafMaker(schema, columns_of_table(schema))


def add(path: str, number: int = 0, **more: Any) -> Add:
    return Add(path=path, partitionValues={"day": "1"}, size=1, modificationTime=1, dataChange=True, **more)


def content(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def test_what_is_no_leaf_is_refused() -> None:
    for table in (pa.table({"path": ["f"]}), pa.table({"path": ["f"]}).replace_schema_metadata({"other": "x"})):
        with pytest.raises(ValueError, match="no leaf"):
            Leaf.of(content(table))
    assert len(Leaf.of(content(maker("day", "id").table([add("f")])))) == 1


def test_of_two_versions_of_a_file_the_one_that_is_overridden_is_gone() -> None:
    old = DeletionVector(**vector(1))
    new = DeletionVector(**vector(2))
    leaf = Leaf(
        maker("day", "id").table([add("f", deletionVector=old), add("f", deletionVector=new), add("g")], [("h", "")])
    )
    first, second, *_ = leaf.files()
    assert leaf.alive(*path_lists([])).to_pylist() == [True, True, True, False]
    assert leaf.alive(*path_lists([first])).to_pylist() == [False, True, True, False]
    assert leaf.alive(*path_lists([second, ("h", ""), ("g", "")])).to_pylist() == [True, False, False, False]
    assert leaf.planned_files([], stats=True) == []


def test_a_column_that_no_leaf_has_bounds_of_and_one_that_is_none_exclude_nothing() -> None:
    older = maker("day", "id")
    newer = maker("day", "id", "name")
    schema = TableSchema.of(metadata(("day", "id", "name", "weight"))["metaData"])
    leaves = [
        Leaf(older.table([add("f")])),
        Leaf(newer.table([add("g", stats='{"numRecords":1,"minValues":{"name":"a"},"maxValues":{"name":"b"}}')])),
    ]
    of_column = bounds_of(leaves, schema)
    assert of_column(("nothing",)) is None and of_column(("weight",)) is None
    name = of_column(("name",))
    assert name is not None and (name.low.to_pylist(), name.high.to_pylist()) == ([None, "a"], [None, "b"])
    assert leaves[0].position(schema, ("nothing",)) is None


def test_rows_of_a_leaf_follow_the_partition_columns_of_the_table() -> None:
    leaf = Leaf(maker("day", "id").table([add("f")]))
    own = maker("day", "id")
    assert own.align_leaf(leaf)["partition"].to_pylist() == [["1"]]
    other = TableSchema.of({**metadata(("id", "day"))["metaData"], "partitionColumns": ["id", "day"]})
    both = LeafMaker(other, columns_of_table(other)).align_leaf(leaf)
    assert both["partition"].to_pylist() == [[None, "1"]]


def test_a_text_that_no_store_holds_is_refused_and_statistics_that_are_none_say_nothing() -> None:
    rows = maker("day", "id").table([add("f", stats="{"), add("g", stats='{"numRecords":"x"}')])
    assert rows["records"].to_pylist() == [None, None]
    with pytest.raises(UnsupportedTable, match="cannot be indexed"):
        maker("day", "id").table([add("\ud800")])


def test_files_of_a_state_are_sorted_some_at_a_time() -> None:
    class State:
        def files(self) -> Any:
            return iter([add(f"f{n}") for n in range(25)])

    assert [len(run) for run in _runs(maker("day", "id"), State(), 10)] == [10, 10, 5]  # type: ignore[arg-type]


def test_at_once_uses_threads_only_for_several() -> None:
    import threading

    here = threading.get_ident()
    assert at_once(lambda _: threading.get_ident(), [1], 8) == [here]
    assert at_once(lambda _: threading.get_ident(), [1, 2], 1) == [here, here]
    assert here not in at_once(lambda _: threading.get_ident(), [1, 2], 2)


# -- commits since an index --------------------------------------------------------------------------------------------


def test_a_commit_without_a_file_has_no_stamp_and_empty_lines_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    history = Evolving(1)
    assert stamp_of(history.table.storage, 99) is None and stamp_of(history.table.storage, 0) is not None
    changed = changes.Changes({})
    line = json.dumps(delta.add("f")).encode()
    changes._apply(changed, InForce(), [b"", b"  ", line], "version 1")
    assert [path for path, _ in changed.files] == ["f"]
    monkeypatch.setattr(changes, "MAX_CHANGES", 2)
    changes._apply(changed, InForce(), [json.dumps(delta.remove("g")).encode()], "version 2")
    assert changed.removes == [("g", "")]
    with pytest.raises(changes.TooMany):
        changes._apply(changed, InForce(), [json.dumps(delta.add("h")).encode()], "version 3")


def test_a_large_commit_is_read_from_its_staged_file_or_from_the_log_that_it_was_copied_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(fake_world())
    name = table.stage()
    monkeypatch.setattr(changes, "is_large", lambda _: True)
    (before,) = [path for path, _ in changes.changes_of(table.world, table.head, 1, 1).files]
    content = table.storage.read(staged_path(name))
    assert content is not None
    table.storage.put_if_absent(published_path(1), content[0])
    table.storage.delete(staged_path(name))
    assert [path for path, _ in changes.changes_of(table.world, table.head, 1, 1).files] == [before]


def test_only_an_explained_plan_counts_the_table() -> None:
    history = Evolving(2)
    for _ in range(6):
        history.step()
    planner = Planner(history.world)
    plain, explained = (
        planner.plan(history.table.head, limit=2, explain=explain).statistics for explain in (False, True)
    )
    assert (plain.files, plain.total_files, plain.dropped) == (2, None, {})
    assert explained.total_files == explained.files == len(history.files) > 2


def test_leaves_that_the_root_excludes_are_not_read() -> None:
    history = Evolving(3)
    for _ in range(20):
        history.step()
    Publisher(history.world).publish(history.table.id)
    IndexUpkeep(history.world, sizes=SMALL).keep_up(history.table.head)
    of_a_day = Planner(history.world).plan(
        history.table.head, lambda columns: columns.find_column("day").compare("=", 1)
    )
    assert 0 < of_a_day.statistics.leaves_read < of_a_day.statistics.leaves
    everything = Planner(history.world).plan(history.table.head)
    assert everything.statistics.leaves_read == everything.statistics.leaves > 3


def test_only_decimals_have_a_scale() -> None:
    scales = {
        type: scale_of(type)
        for type in ("decimal(10,2)", "decimal(38,0)", "boolean", "date", "double", "string", "long")
    }
    assert scales.pop("decimal(10,2)") == 2 and set(scales.values()) == {0}

"""The scheduled function of light work: tables that events name, tables that failed, one run after
the other (I14, I15)."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.delta_table import TABLE, Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Context, Function
from tests.support.repository import ROOT
from turnstile.api import light_work
from turnstile.api.light_work import ALL, MARGIN_MS
from turnstile.coordination.heartbeat import LEASE_MS
from turnstile.coordination.tasks import Attempt, Tasks
from turnstile.delta.attention import AttentionRow
from turnstile.delta.log.files import list_log
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender
from turnstile.maintenance.core.due import FIRST_PAUSE_MS
from turnstile.maintenance.work import TERM_MS
from turnstile.store.core.names import published_path
from turnstile_local.deployment import read_template

SCHEDULED = {"source": "aws.events"}
LONG = Context(900_000)


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def app(world: FakeWorld) -> Function:
    made = Function("maintain")
    made.use_world(world)
    return made


def grown(world: FakeWorld, id: str = TABLE, versions: int = 10) -> Table:
    """A table with so many versions, published, and their events."""
    table = Table(world, id)
    for _ in range(versions):
        table.inline()
    Publisher(world).publish(id)
    Appender(world).append([table.key])
    return table


def test_i14_i15_a_run_maintains_the_tables_that_events_name_and_the_next_one_has_nothing_to_do(
    app: Function, world: FakeWorld
) -> None:
    tables = [grown(world, table_id(number)) for number in (1, 2)]
    figures = app.maintain(SCHEDULED, LONG)
    assert {name: count for name, count in figures.items() if count} == {"tables": 2, "checkpoints": 2, "checksums": 2}
    assert all(10 in list_log(table.storage).checkpoints for table in tables)
    assert not any(app.maintain(SCHEDULED, LONG).values())


def test_a_run_that_is_out_of_time_leaves_the_rest_to_the_next_one(app: Function, world: FakeWorld) -> None:
    table = grown(world)
    assert not any(app.maintain(SCHEDULED, Context(MARGIN_MS)).values())
    assert list_log(table.storage).checkpoints == {}
    assert app.maintain(SCHEDULED, LONG)["checkpoints"] == 1


def test_a_table_that_failed_is_found_by_the_run_over_all_tables(app: Function, world: FakeWorld) -> None:
    table = grown(world)
    table.put(published_path(4), b"{")
    assert app.maintain(SCHEDULED, LONG)["failures"] == 1
    assert not any(app.maintain(SCHEDULED, LONG).values()), "its event is behind the place"
    table.put(published_path(4), table.ratified[4])
    world.clock.now += FIRST_PAUSE_MS
    assert app.maintain(ALL, LONG)["checkpoints"] == 1
    assert 10 in list_log(table.storage).checkpoints


def test_a_table_that_failed_is_tried_by_every_run_over_the_next_rows_until_it_is_maintained(
    app: Function, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_work, "ROWS_MAX", 1)
    app.maintain(ALL, LONG)
    table = grown(world)
    table.put(published_path(4), b"{")
    app.maintain(SCHEDULED, LONG)
    notes = AttentionRow(world, "maintenance").read().noted
    assert [note.partition(" ")[0] for note in notes] == [table.id]
    for _ in range(2):
        world.clock.now += 4 * FIRST_PAUSE_MS
        assert app.maintain(ALL, LONG)["failures"] == 1
    table.put(published_path(4), table.ratified[4])
    assert app.maintain(ALL, LONG) == dict.fromkeys(app.maintain(ALL, LONG), 0), "its pause is not over"
    world.clock.now += 16 * FIRST_PAUSE_MS
    assert app.maintain(ALL, LONG)["checkpoints"] == 1
    assert AttentionRow(world, "maintenance").read().noted == frozenset()


def test_a_table_that_was_busy_is_tried_by_each_run_until_its_work_is_done(app: Function, world: FakeWorld) -> None:
    """A run that was killed has left the lease, and its event comes again while that lasts."""
    table = grown(world)
    assert isinstance(Tasks(world).begin(f"maintain.{table.id}", LEASE_MS), Attempt)
    for _ in range(3):
        assert not any(app.maintain(SCHEDULED, LONG).values())
        notes = AttentionRow(world, "maintenance").read().noted
        assert [note.partition(" ")[0] for note in notes] == [table.id]
    world.clock.now += LEASE_MS
    assert app.maintain(SCHEDULED, LONG)["checkpoints"] == 1
    assert AttentionRow(world, "maintenance").read().noted == frozenset()


def test_runs_over_the_next_rows_find_tables_that_no_event_named(
    app: Function, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_work, "ROWS_MAX", 5)
    app.maintain(ALL, LONG)
    tables = [Table(world, table_id(number)) for number in range(6)]
    for table in tables:
        for _ in range(10):
            table.inline()
        Publisher(world).publish(table.id)
    counts = [app.maintain(ALL, LONG)["checkpoints"] for _ in range(len(world.refs.rows) // 5 + 2)]
    assert sum(counts) == 6 and max(counts) < 6
    for table in tables:
        for _ in range(10):
            table.inline()
        Publisher(world).publish(table.id)
    assert app.maintain(light_work.EVERY, LONG)["checkpoints"] == 6


def test_the_schedules_say_what_the_function_understands() -> None:
    properties = read_template(ROOT / "template.yaml")["Resources"]["MaintainFunction"]["Properties"]
    inputs = [event["Properties"].get("Input") for event in properties["Events"].values()]
    assert inputs == [None, '{"turnstile": "maintain all"}']
    assert ALL == {"turnstile": "maintain all"}
    assert properties["Timeout"] * 1000 <= TERM_MS
    assert properties["Timeout"] * 1000 > MARGIN_MS


FUNCTIONS = sorted({path.parent.name for path in (ROOT / "functions").glob("*/app.py")} - {"authorizer"})
"""Without the one that does not start until it is told whose tokens to check; it has the least of
all."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_imports_pyarrow_when_it_starts(name: str) -> None:
    code = (
        "import sys; from tests.support.functions import Function; "
        f"Function({name!r}); print([name for name in sys.modules if name.split('.')[0] == 'pyarrow'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_only_parts_that_read_or_write_data_files_import_pyarrow_by_a_statement() -> None:
    found = set()
    for path in (ROOT / "layers/turnstile").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "pyarrow" for name in names):
                found.add(path.relative_to(ROOT / "layers/turnstile").as_posix())
    assert {path.partition("/")[0] for path in found} == {
        "branches",
        "expectations",
        "iceberg",
        "ingest",
        "maintenance",
        "planning",
    }

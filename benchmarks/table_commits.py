"""Commits a second of one hot table, and what each costs: ``python -m benchmarks.table_commits``.

Writers append to one table by tickets, again and again without a break. Requests to the store take
as long as DynamoDB's do in the same region, in virtual time (``catalog_racing``), so a busy machine
changes no figure; computing takes no time. A row takes 1,000 write units a second, as a partition
of DynamoDB does: beyond that requests are throttled, and sent again after a pause, as the adapter
does.

    alone       one process, each commit with a write of its own
    shared      one process: commits that wait share writes (``delta.ratify``)
    servers     several processes whose groups race each other
    owner       the same number of processes, each of which hands its commits to the owner of the
                table: a hop of 1 ms there and back

Publishing is stood in for by its writes of the HEAD, which raise the floor. In the end every
acknowledged commit is in the table's history once.
"""

from __future__ import annotations

import json
import random
import statistics
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.catalog_racing.metering import Meter, MeteredRefs, Network, units
from benchmarks.catalog_racing.worlds import InVirtualTime, VirtualTime, world_of
from tests.support.fakes import delta
from tests.support.fakes.heads import new_head_row
from tests.support.store.backends import FAKE, Backend
from turnstile.adapters.dynamo.calls import PATIENCE
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.core.writes.ratify import raise_floor
from turnstile.delta.core.writes.shared import GROUP_COMMITS
from turnstile.delta.prepare import Prepared
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import CommitQueue, Ratifier, WaitingCommit
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import METADATA
from turnstile.store.core.writes import Insert, Row, Write, new_row
from turnstile.store.ports import Accepted, Obj, Rejected, World
from turnstile.store.queue import WaitingQueue

ROW_UNITS_S: Final = 1_000
"""Write units that a row takes a second."""

BURST_S: Final = 1.0
"""For so long a row may have taken nothing, and take it later at once; far less than DynamoDB's 300
s, so that a short run shows the limit."""

FLOOR_S: Final = 0.05
"""How often the stand-in for the publisher raises the floor."""

HOP_S: Final = 0.001
TABLE: Final = "11111111-1111-4111-8111-111111111111"
WAYS: Final = ("alone", "shared", "servers", "owner")


class Partition:
    """What a row has left of its write units."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._left = ROW_UNITS_S * BURST_S
        self._seen_s = 0.0

    def takes(self, count: int) -> bool:
        now_s = self._time.seconds()
        self._left = min(ROW_UNITS_S * BURST_S, self._left + (now_s - self._seen_s) * ROW_UNITS_S)
        self._seen_s = now_s
        if self._left < 0:
            return False
        self._left -= count
        return True


class ThrottledRefs(MeteredRefs):
    """Rows with a limit, and the adapter's pauses when it is met."""

    def __init__(self, refs: Any, meter: Meter, partition: Partition, time: VirtualTime, delay: Network) -> None:
        super().__init__(refs, meter, delay=delay, named=True)
        self._partition = partition
        self._virtual = time
        self._random = random.Random(2)
        self.throttled = 0

    def write(self, write: Write) -> Accepted | Rejected:
        limit_s = PATIENCE.first_s
        while True:
            self._before("update_item", Network.WRITE)
            row: Row | None = self._refs.read(write.key)
            if self._partition.takes(units(row)):
                answer = self._refs.write(write)
                self._meter.add(write_units=units(answer.row))
                return answer
            self.throttled += 1
            self._virtual.sleep(self._random.random() * limit_s)
            limit_s = min(2 * limit_s, PATIENCE.longest_s)


class VirtualCommits(InVirtualTime, WaitingQueue[WaitingCommit]):
    """The queue of a process in virtual time."""


class Alone(CommitQueue):
    """No commit waits for another one."""

    def commit(self, ratifier: Ratifier, prepared: Prepared) -> Any:
        return CommitQueue().commit(ratifier, prepared)


@dataclass
class Heat:
    """What a heat showed."""

    way: str
    writers: int
    processes: int
    ms: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    again: int = 0
    figures: dict[str, Any] = field(default_factory=dict)


def run_heat(way: str, writers: int, processes: int, seconds: float) -> Heat:
    """Runs one heat, and checks the table's history."""
    processes = 1 if way in ("alone", "shared") else processes
    time = VirtualTime()
    meter = Meter()
    heat = Heat(way, writers, processes)
    backend = Backend(FAKE)
    realm = f"table{uuid.uuid4().hex}"
    delay = Network(1.0, time.sleep)
    world = world_of(backend, realm, clock=time)
    _create(world)
    refs = ThrottledRefs(world.refs, meter, Partition(time), time, delay)
    worlds = [World(refs, world.objs, world.storages, time, world.ids, world.space) for _ in range(processes)]
    ratifiers = [
        Ratifier(each, queue=Alone() if way == "alone" else CommitQueue(VirtualCommits(time, GROUP_COMMITS, "commits")))
        for each in worlds
    ]
    for ratifier in ratifiers:
        ratifier.heads.read(TABLE)
    meter.start()

    def writer(number: int) -> None:
        ratifier = ratifiers[0 if way == "owner" else number % processes]
        hop_s = HOP_S if way == "owner" and number % processes else 0.0
        count = base = 0
        while time.seconds() < seconds:
            txn = f"w{number}.{count}"
            began_s = time.seconds()
            content = delta.append(txn, time.now_ms())
            request = CommitRequest(TABLE, None, base=base, content=content)
            while True:
                if hop_s:
                    time.sleep(hop_s)
                try:
                    answer = ratifier.commit(request)
                except TurnstileError:
                    answer = None
                if isinstance(answer, Ratified):
                    break
                heat.again += 1
                time.sleep(0.1)
            base = answer.latest
            heat.ms.append((time.seconds() - began_s) * 1000)
            heat.acknowledged.append(txn)
            in_time[0] += time.seconds() <= seconds
            count += 1
        writing[0] -= 1

    history = dict[int, str]()
    writing = [writers]
    in_time = [0]

    def publisher() -> None:
        ended = False
        while not ended:
            time.sleep(FLOOR_S)
            ended = not writing[0]
            row = world.refs.read(world.space.table(TABLE))
            assert row is not None
            head = TableHead.from_row(row)
            history.update({head.tail_from + at: entry.txn for at, entry in enumerate(head.tail)})
            if head.latest > head.floor:
                refs.write(raise_floor(head, head.latest, idle=False))

    tasks: list[Callable[[], None]] = [partial(writer, number) for number in range(writers)]
    time.run([*tasks, publisher])
    versions = sorted(history)
    assert versions == list(range(1, len(versions) + 1)), "a version is missing"
    assert sorted(history.values()) == sorted(set(history.values())), "a commit is there twice"
    missing = set(heat.acknowledged) - set(history.values())
    assert not missing, f"acknowledged and lost: {sorted(missing)[:5]}"
    commits = max(1, len(heat.acknowledged))
    quantiles = statistics.quantiles(heat.ms, n=100) if len(heat.ms) > 1 else [0.0] * 99
    heat.figures = {
        "way": way,
        "writers": writers,
        "processes": processes,
        "per_second": round(in_time[0] / seconds, 1),
        "requests": round(sum(meter.counts.requests.values()) / commits, 2),
        "write_units": round(meter.counts.write_units / commits, 2),
        "throttled": refs.throttled,
        "sent_again": heat.again,
        "ms_p50": round(quantiles[49], 1),
        "ms_p95": round(quantiles[94], 1),
        "ms_p99": round(quantiles[98], 1),
    }
    return heat


def _create(world: World) -> None:
    now = world.clock.now_ms()
    first = first_metadata(read_content(delta.version_zero("zero", now), first_version=True))
    payload = msgspec.json.encode(msgspec.structs.replace(first, timestamp=0))
    world.objs.put(Obj(world.space.objs("main"), "metadata/m", METADATA.name, payload, created_us=1))
    row = new_head_row(
        key=world.space.table(TABLE), table_id=TABLE, catalog="main", name="main.default.hot",
        location="file:///lake/hot", metadata="metadata/m",
        version=0, ict=now, row_hwm=None, created=now, managed=True,
    )  # fmt: skip
    world.refs.write(Insert(row, (new_row("I2"),)))


def run(
    *,
    writers: Annotated[list[int] | None, typer.Option(min=1, help="How many; may be given several times.")] = None,
    processes: Annotated[int, typer.Option(min=2, help="Processes of servers and owner.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.5, help="Virtual length of each heat.")] = 10.0,
    output: Annotated[str, typer.Option(help="text or json")] = "text",
) -> None:
    """Race for one table's HEAD and print what a commit costs."""
    rows = [run_heat(way, count, processes, seconds).figures for count in (writers or [1, 8, 32, 128]) for way in WAYS]
    if output == "json":
        typer.echo(json.dumps({"seconds": seconds, "heats": rows}, indent=2))
        return
    grid = Table(title="one table, tickets; requests and units are for each commit")
    for name in rows[0]:
        grid.add_column(name, justify="right")
    for row in rows:
        grid.add_row(*(str(value) for value in row.values()))
    Console(width=150).print(grid)


if __name__ == "__main__":
    typer.run(run)

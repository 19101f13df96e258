"""Small tables of many kinds, each in a lake of its own (``tests.support.damage``)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time_ns
from typing import Any, Final

from pyarrow import parquet

from tests.support.catalog import create, head_of
from tests.support.clones import clone, commit
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.legacy import legacy_info, legacy_metadata, legacy_protocol
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.publish import Publisher
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.maintenance.work import Maintainer
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import LOG, published_path
from turnstile.transfer.imports import Importer

DAY_MS: Final = 86_400_000
HISTORY_MS: Final = 7 * DAY_MS
GRACE: Final = Grace(history_ms=HISTORY_MS)
CHECKPOINT: Final = 10
LATEST: Final = 24


@dataclass
class Case:
    """A table in a lake of its own, and what is known of it."""

    name: str
    folder: Path
    world: FakeWorld
    services: CatalogServices
    table_id: str
    below: Path
    truth: dict[int, set[str]] = field(default_factory=dict)

    @property
    def head(self) -> Any:
        return head_of(self.world, self.table_id)

    def files(self) -> list[Path]:
        """Every file below the table, without hidden ones."""
        found = (Path(at) / name for at, _, names in os.walk(self.below) for name in names)
        return sorted(path for path in found if not path.name.startswith("."))


# -- the tables --------------------------------------------------------------------------------------------------------


def new_world(folder: Path) -> tuple[FakeWorld, CatalogServices]:
    """A catalog with a lake below ``folder``."""
    world = replace(fake_world(), storages=FileStorages(None))
    world.clock.now = time_ns() // 1_000_000
    lake = f"file://{folder}/lake"
    bootstrap.ensure(world, lake_root=lake)
    return world, build(world, lake_root=lake, limits=Limits(history_ms=HISTORY_MS))


def _data(storage: Any, path: str) -> None:
    storage.put_if_absent(path, b"0123456789")


def _append(case: Case, number: int, **more: Any) -> None:
    """A commit that adds a file and, now and then, removes one."""
    storage = case.world.storages.open(case.head.location)
    path = f"part-{number:05d}-a0000000-0000-4000-8000-{number:012d}.c000.snappy.parquet"
    _data(storage, path)
    actions = [delta.add(path, **more)]
    if number % 5 == 4:
        before = case.truth[number - 1]
        if number >= 12:
            actions.append(delta.remove(min(before)))
    version = commit(case.world, case.table_id, *actions)
    Publisher(case.world).publish(case.table_id)
    files = set(case.truth.get(version - 1, ())) | {path}
    for action in actions[1:]:
        files.discard(action["remove"]["path"])
    case.truth[version] = files


def _grown(
    case: Case,
    *,
    light_work: bool,
    index: bool = False,
    latest: int = LATEST,
    more: Callable[[int], dict[str, Any]] = lambda _: {},
) -> Case:
    """The table with commits up to ``latest``, and with a checkpoint of version ``CHECKPOINT``."""
    case.truth.setdefault(0, set())
    for number in range(case.head.latest + 1, latest + 1):
        _append(case, number, **more(number))
        if light_work and number == CHECKPOINT:
            maintain(case, index=index)
    return case


def maintain(case: Case, *, index: bool = False) -> Any:
    following = (IndexUpkeep(case.world),) if index else ()
    return Maintainer(case.world, following=following).maintain(case.table_id)


def aged(case: Case) -> Case:
    """Nine weeks later; the catalog was changed each week, so that its past holds nothing of the
    table."""
    for week in range(9):
        case.world.clock.now += 7 * DAY_MS
        case.services.namespaces.create("main", (f"week{week}-{case.world.clock.now}",))
    return case


def _managed(name: str, folder: Path, *features: str, **properties: str) -> Case:
    world, services = new_world(folder)
    table_id = create(services)
    case = Case(
        name, folder, world, services, table_id, Path(head_of(world, table_id).location.removeprefix("file://"))
    )
    case.truth[0] = set()
    if features or properties:
        zero = delta.version_zero("x", 0, *features, **properties).splitlines()[1:]
        actions = [json.loads(line) for line in zero]
        actions[1]["metaData"]["configuration"] |= {"io.unitycatalog.tableId": table_id}
        for member in ("readerFeatures", "writerFeatures"):
            for feature in features:
                if feature in ("v2Checkpoint", "deletionVectors") and feature not in actions[0]["protocol"][member]:
                    actions[0]["protocol"][member].append(feature)
        commit(world, table_id, *actions)
        Publisher(world).publish(table_id)
        case.truth[1] = set()
    return case


VECTOR: Final = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 1,
}


def plain(folder: Path) -> Case:
    return _grown(_managed("plain", folder), light_work=False, latest=9)


def partitioned(folder: Path) -> Case:
    case = _managed("partitioned", folder)
    return _grown(case, light_work=True, more=lambda number: {"tags": {"day": f"2026-11-{number:02d}"}})


def vectors(folder: Path) -> Case:
    case = _managed("deletion vectors", folder, "deletionVectors")
    return _grown(
        case, light_work=True, more=lambda number: {"deletionVector": VECTOR} if number % 3 == 0 and number > 12 else {}
    )


def checkpointed(folder: Path) -> Case:
    return _grown(_managed("checkpoint", folder), light_work=True)


def indexed(folder: Path) -> Case:
    return _grown(_managed("file index", folder), light_work=True, index=True)


def v2(folder: Path) -> Case:
    asked = {"delta.checkpointPolicy": "v2"}
    return _grown(_managed("V2 checkpoint", folder, "v2Checkpoint", **asked), light_work=True)


def parts(folder: Path) -> Case:
    """Its checkpoint is of two parts."""
    case = _grown(_managed("checkpoint of parts", folder), light_work=True)
    whole = case.below / LOG / f"{CHECKPOINT:020d}.checkpoint.parquet"
    table = parquet.read_table(whole)
    middle = len(table) // 2
    for number, rows in ((1, table.slice(0, middle)), (2, table.slice(middle))):
        part = f"{CHECKPOINT:020d}.checkpoint.{number:010d}.{2:010d}.parquet"
        parquet.write_table(rows, case.below / LOG / part, write_page_checksum=True)
    whole.unlink()
    return case


def unsealed(folder: Path) -> Case:
    """Its checkpoint is of a writer that leaves no checksums of pages, and compresses none; there
    is no version checksum."""
    case = _grown(_managed("checkpoint without checksums", folder), light_work=True)
    path = case.below / LOG / f"{CHECKPOINT:020d}.checkpoint.parquet"
    table = parquet.read_table(path)
    path.unlink()
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    (case.below / LOG / f"{CHECKPOINT:020d}.crc").unlink()
    return case


def imported(folder: Path) -> Case:
    world, services = new_world(folder)
    place = f"file://{folder}/old/t"
    storage = world.storages.open(place)
    actions = ([legacy_protocol(), legacy_metadata(), legacy_info("CREATE TABLE")],)
    for number in range(CHECKPOINT):
        if number == 0:
            storage.put_if_absent(published_path(0), delta.lines(*actions[0]))
        else:
            _data(storage, f"f{number}")
            storage.put_if_absent(published_path(number), delta.lines(legacy_info(), delta.add(f"f{number}")))
    table_id = Importer(services).run("main", ("default",), "t", place).table_id
    case = Case("imported", folder, world, services, table_id, folder / "old" / "t")
    world.clock.now = max(world.clock.now, case.head.last_ict) + 1_000  # files have the time of the machine
    files = {f"f{number}" for number in range(1, CHECKPOINT)}
    case.truth = {number: {f"f{at}" for at in range(1, number + 1)} for number in range(CHECKPOINT)}
    case.truth[case.head.latest] = files
    return _grown(case, light_work=True)


def cloned(folder: Path) -> Case:
    """A clone of a table: what is damaged are its source's files."""
    case = _grown(_managed("cloned", folder), light_work=True)
    result = clone(case.services, "default.t", "default.c")
    case.table_id = (
        result.table_id
        if hasattr(result, "table_id")
        else case.services.reader.resolve("main", ("default",), "c").table_id
    )
    return case


def cleaned(folder: Path) -> Case:
    """Its log begins at a checkpoint."""
    case = _grown(_managed("cleaned log", folder), light_work=True)
    now = case.world.clock.now
    weeks = aged(case)
    Collector(weeks.world, GRACE, workers=1).collect(("log",), dry_run=False)
    assert not (case.below / published_path(0)).exists() and case.world.clock.now > now
    return case


TABLES: Final = (plain, partitioned, vectors, checkpointed, indexed, v2, parts, unsealed, imported, cloned, cleaned)

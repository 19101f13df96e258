"""Kills a whole server again and again in the midst of work that takes more than one write, and
looks at the state left.

    python -m tests.histories.kill_work --kinds gc reset branches --kills 20

Each kill is a SIGKILL of every process at a random moment after the work was seen to begin; then
the server is started again. Of each kind of work:

    gc            staged files that lost, dropped tables and their tombstones: all go, and nothing else does (I10)
    reset         a catalog that goes to and fro between two snapshots: it is one of the two, and
                  the one that was acknowledged (I8, I9)
    import        a table of a file system comes under the catalog: by one upgrade commit, and
                  running it again ends it (I2, I9)
    iceberg       appends: each that was acknowledged is there once, and the table can be read (I3, I8)
    branches      branches of 52 tables, promoted or dropped: the catalog shows all of one or nothing (I28)
    checkpoints   light work: every checkpoint that is there can be read, all that are due are written in the end (I15)

Changes that would take hours are made while the server is down: rows and files are made older. The
lease of a run that was killed is ended likewise, but for the last kill, after which it is waited
for.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from tests.histories.interrupted import ENVIRONMENT, HEADING, HOUR_MS, Work, campaign
from tests.histories.kill_branches import Branching
from tests.support.fakes import delta
from tests.support.legacy import legacy_info, legacy_metadata, legacy_protocol
from tests.support.stack import NAMESPACE, Table, eventually
from turnstile.adapters.sqlite.database import Database
from turnstile.coordination.core.rows import Task
from turnstile.store.core.names import STAGED, published_path
from turnstile.store.core.writes import Row
from turnstile_server import Server

# -- gc ----------------------------------------------------------------------------------------------------------------


class Gc(Work):
    """Losing staged files of a table, and tables that were dropped."""

    kind = "gc"
    moments_s = (0.0, 0.15)
    losers = 600

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.table = Table(self.server)
        for version in range(1, 4):
            self.table.stage(version)
        self.kept = f"{4:020d}.{uuid.uuid4()}.json"
        self.table.storage.write(STAGED + self.kept, b"of a writer that has not proposed it yet")
        self.dropped: list[Table] = []
        self.waits = False

    def prepare(self) -> None:
        """Garbage of every age: it is due, when the server was down once."""
        self.table.settled(60)
        folder = Path(self.table.storage.root)
        for number in range(self.losers):
            name = f"{1 + number % 3:020d}.{uuid.uuid4()}.json"
            self.table.storage.write(STAGED + name, delta.append(str(uuid.uuid4()), 1))
            _aged(folder / STAGED / name)
        for version in range(4):
            _aged(folder / published_path(version))
        gone = Table(self.server)
        for number in range(50):
            gone.storage.write(f"part-{number}.parquet", b"x")
        self.ask("DELETE", f"{NAMESPACE}/tables/{gone.name}")
        gone.api.close()
        self.dropped.append(gone)
        self._restarted()

    def _restarted(self) -> None:
        port = self.server.port
        self.server.stop()
        self.rows(self._older)
        self.server = Server.start(self.server.home, port, environment=ENVIRONMENT)

    def _older(self, row: Row) -> Row | None:
        """Dropped tables are two hours old, purged ones have been so for a month; and the lease of
        a run that was killed is over."""
        if row["kind"] == "table" and row["state"] == "dropped":
            back_ms = 32 * 24 * HOUR_MS if row.get("reason") == "purged" else 2 * HOUR_MS
            return {**row, "changed_at": row["changed_at"] - back_ms}
        if row["key"].endswith("/task/collect") and not self.waits:
            return _end_lease(row)
        return None

    def work(self) -> bool:
        return self.api.post("/v1/gc", json={"dry_run": False}).status_code == 200

    def down(self, *, last: bool) -> None:
        self.waits = last
        self.rows(self._older)

    def whole(self) -> bool:
        answer = self.api.post("/v1/gc", json={"dry_run": False})
        if answer.status_code == 409:
            assert answer.json()["error"]["type"] == "GcRunning", answer.text
            return False
        report = answer.json()
        assert answer.status_code == 200, answer.text
        return bool(report["complete"] and not report["items"])

    def check(self) -> Iterator[str]:
        staged = sorted(path.name for path in (Path(self.table.storage.root) / STAGED).iterdir())
        head = self.table.get("head")
        if self.kept not in staged or len(staged) > 4:
            yield f"gc: {len(staged)} staged files are left, {self.kept in staged} the one that may be proposed"
        yield from _readable(self.table, head["latest"])
        self._restarted()  # purged tables are a month old now
        if not self._ends():
            yield "gc: it does not end"
        for gone in self.dropped:
            if Path(gone.storage.root).exists():
                yield f"gc: {gone.storage.root} is still there"
        for table in ("refs", "objs"):
            names = "key" if table == "refs" else "id"
            database = Database(self.server.home / "turnstile.db", create=False)
            keys = [key for (key,) in database.rows(f"SELECT {names} FROM {table}")]
            database.close()
            left = [key for key in keys for gone in self.dropped if gone.id in key]
            if left:
                yield f"gc: {len(left)} rows of {table} are left of purged tables: {left[:3]}"

    def _ends(self) -> bool:
        return bool(eventually(self.whole, 300))


def _end_lease(row: Row) -> Row | None:
    """Returns the row of a task with the attempt that was killed at its end; None for no
    attempt."""
    task = Task.unpack(row["payload"])
    return {**row, "payload": task.fail("killed", task.until).pack()} if task.until else None


def _aged(path: Path, hours: float = 24) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def _readable(table: Table, latest: int) -> Iterator[str]:
    for version in range(latest + 1):
        if not table.storage.version(version):
            yield f"{table.id}: version {version} is not in the log"


# -- reset -------------------------------------------------------------------------------------------------------------


class Reset(Work):
    """To and fro between two snapshots of many tables and namespaces."""

    kind = "reset"
    moments_s = (0.0, 0.12)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sets: dict[str, set[str]] = {}
        self.tables = [Table(self.server) for _ in range(8)]
        self._remember("spring")
        for table in self.tables[:4]:
            self.ask("DELETE", f"{NAMESPACE}/tables/{table.name}")
        self.tables += [Table(self.server) for _ in range(4)]
        self._remember("summer")
        self.at = "summer"
        self.asked = ""

    def _remember(self, name: str) -> None:
        self.ask("POST", "/v1/catalogs/main/snapshots", {"name": name})
        self.sets[name] = self._names()

    def _names(self) -> set[str]:
        listed = self.ask("GET", f"{NAMESPACE}/tables?max_results=100")
        return {each["name"] for each in listed["tables"]}

    def prepare(self) -> None:
        pass

    def work(self) -> bool:
        while True:  # until it is killed
            self.asked = "spring" if self.at == "summer" else "summer"
            self.ask("POST", "/v1/catalogs/main/reset", {"to": {"snapshot": self.asked}})
            self.at = self.asked
            self.asked = ""
            self.report.done += 1

    def whole(self) -> bool:
        names = self._names()
        possible = {self.at, self.asked or self.at}
        found = [name for name in possible if self.sets[name] == names]
        if not found:
            self.report.problems.append(
                f"reset: {sorted(names)} are the tables, and it was {self.at}, then {self.asked}"
            )
            return True
        self.at = found[0]
        self.asked = ""
        return True

    def check(self) -> Iterator[str]:
        for table in self.tables:
            state = self.api.get(f"/v1/tables/{table.id}/head")
            shown = table.name in self.sets[self.at]
            if shown != (state.status_code == 200 and state.json()["state"] == "active"):
                yield f"reset: {table.name} is {state.text[:200]}, and {'shown' if shown else 'not shown'}"
            if shown:
                latest = state.json()["latest"]
                answer = table.append(latest + 1)
                if answer["outcome"] != "ratified":
                    yield f"reset: {table.name} takes no commit: {answer}"
                table.settled(60)
                yield from _readable(table, latest + 1)

    def close(self) -> None:
        for table in self.tables:
            table.api.close()
        super().close()


# -- import ------------------------------------------------------------------------------------------------------------


class Import(Work):
    """A table of a file system for each kill."""

    kind = "import"
    moments_s = (0.0, 0.04)
    versions = 40

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.places: list[Path] = []
        self.told: list[bool] = []

    def prepare(self) -> None:
        place = self.server.home.parent / f"{self.server.home.name}-old" / f"t{len(self.places)}"
        (place / "_delta_log").mkdir(parents=True)
        first = (legacy_protocol(), legacy_metadata(), legacy_info("CREATE TABLE"))
        for version in range(self.versions):
            actions = first if version == 0 else (legacy_info(), delta.add(f"f{version}"))
            (place / published_path(version)).write_bytes(delta.lines(*actions))
        self.places.append(place)

    def work(self) -> bool:
        self.told.append(False)
        answer = self._import()
        assert answer.status_code == 201, answer.text
        self.told[-1] = True
        return True

    def _import(self) -> httpx.Response:
        place = self.places[-1]
        body = {"name": place.name, "location": place.as_uri(), "dry_run": False}
        return self.api.post(f"{NAMESPACE}/imports", json=body)

    def whole(self) -> bool:
        """The same import again, as an operator or a script sends it."""
        name = self.places[-1].name
        there = self.api.get(f"{NAMESPACE}/tables/{name}").status_code == 200
        if self.told[-1] and not there:
            self.report.problems.append(f"import: {name} was acknowledged and is not there")
            return True
        if there:
            return True
        answer = self._import()
        return answer.status_code == 201

    def check(self) -> Iterator[str]:
        for place in self.places:
            table = self.ask("GET", f"{NAMESPACE}/tables/{place.name}")
            log = [place / published_path(version) for version in range(self.versions + 2)]
            upgrades = [path.name for path in log if path.exists() and b'"turnstile-import-' in path.read_bytes()]
            if len(upgrades) != 1 or not log[self.versions].exists():
                yield f"import: {place.name} has the upgrade commits {upgrades}"
            content = delta.append(str(uuid.uuid4()), int(time.time() * 1000) + 1)
            body = {"version": self.versions + 1, "inline": {"content": content.decode()}}
            answer = self.api.post(f"/v1/tables/{table['table_id']}/commits", json=body)
            if answer.status_code != 200:
                yield f"import: {place.name} takes no commit: {answer.text[:300]}"
        left = self.ask("POST", "/v1/checks", {})
        yield from (
            f"import: {check['message']}"
            for check in left["checks"]
            if check["name"] == "imports" and check["result"] != "ok"
        )


# -- Iceberg -----------------------------------------------------------------------------------------------------------


class IcebergAppends(Work):
    """A client of PyIceberg appends one row after another, and never learns whether the interrupted
    append is there."""

    kind = "iceberg"
    moments_s = (0.05, 0.6)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        import pyarrow as pa

        self.schema = pa.schema([pa.field("n", pa.int64())])
        catalog = self._catalog()
        with contextlib.suppress(Exception):
            catalog.create_namespace("ice")
        self.name = f"ice.t{uuid.uuid4().hex[:8]}"
        catalog.create_table(self.name, self.schema)
        self.number = 0
        self.told = list[int]()
        self.sent = list[int]()

    def _catalog(self) -> Any:
        from pyiceberg.catalog.rest import RestCatalog

        return RestCatalog("main", uri=f"{self.server.url}/iceberg", warehouse="main")

    def prepare(self) -> None:
        pass

    def work(self) -> bool:
        import pyarrow as pa
        import requests

        table = self._catalog().load_table(self.name)
        while True:  # until it is killed
            self.number += 1
            self.sent.append(self.number)
            try:
                table.append(pa.table({"n": [self.number]}, schema=self.schema))
            except (requests.RequestException, OSError) as error:
                raise httpx.ConnectError(str(error)) from error
            except Exception as error:
                if "CommitStateUnknown" in type(error).__name__ or "ServiceUnavailable" in type(error).__name__:
                    raise httpx.ConnectError(str(error)) from error
                raise
            self.told.append(self.number)
            self.report.done += 1

    def whole(self) -> bool:
        """The table can be read, and has every row that was acknowledged, once."""
        rows = sorted(self._catalog().load_table(self.name).scan().to_arrow()["n"].to_pylist())
        lost = set(self.told) - set(rows)
        if lost or len(set(rows)) < len(rows) or not set(rows) <= set(self.sent):
            self.report.problems.append(f"iceberg: lost {sorted(lost)}, rows {rows[-20:]}")
        return True

    def check(self) -> Iterator[str]:
        table = self._catalog().load_table(self.name)
        rows = table.scan().to_arrow()["n"].to_pylist()
        if len(table.metadata.snapshots) != len(rows):
            yield f"iceberg: {len(table.metadata.snapshots)} snapshots, and {len(rows)} rows"


# -- checkpoints -------------------------------------------------------------------------------------------------------


class Checkpoints(Work):
    """Tables that get a checkpoint when ten versions came after the newest one."""

    kind = "checkpoints"
    moments_s = (0.0, 0.4)
    count = 8
    each = 10

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tables = [Table(self.server) for _ in range(self.count)]
        self.versions = [0] * self.count
        self.seen: set[Path] = set()

    def prepare(self) -> None:
        self.seen = set(self._written())

    def work(self) -> bool:
        for at, table in enumerate(self.tables):
            for _ in range(self.each):
                table.append(self.versions[at] + 1)
                self.versions[at] += 1
                self.report.done += 1
        while True:  # light work looks every ten seconds
            self.ask("GET", "/v1/catalogs")
            time.sleep(0.02)

    def begun(self) -> None:
        eventually(lambda: set(self._written()) - self.seen, 120, "light work writes checkpoints")

    def _written(self) -> list[Path]:
        """Checkpoints, and files that are becoming one."""
        logs = [Path(table.storage.root) / "_delta_log" for table in self.tables]
        return [
            path for log in logs for path in log.iterdir() if "checkpoint.parquet" in path.name or path.name[0] == "."
        ]

    def whole(self) -> bool:
        """Acknowledged work from before the kill is there; a commit without an answer counts if it
        is."""
        for at, table in enumerate(self.tables):
            head = table.settled(60)
            if head["latest"] < self.versions[at]:
                self.report.problems.append(f"{table.id}: {head['latest']} of {self.versions[at]} versions are there")
            self.versions[at] = head["latest"]
        return self.report.kills < 1 or not self._last() or not self._due()

    def _last(self) -> bool:
        return self.ends

    ends = False

    def down(self, *, last: bool) -> None:
        """Ends the leases of attempts that were killed: after some kills each table has one."""
        self.ends = last
        if not last:
            self.rows(lambda row: _end_lease(row) if "/task/maintain." in row["key"] else None)

    def _due(self) -> list[str]:
        """Tables that have as many versions since their newest checkpoint as ask for another."""
        found = []
        for table, latest in zip(self.tables, self.versions, strict=True):
            there = (Path(table.storage.root) / "_delta_log").glob("*.checkpoint.parquet")
            newest = max((int(path.name.split(".")[0]) for path in there), default=0)
            if latest - newest >= self.each:
                found.append(f"{table.id} has {latest} versions, and its newest checkpoint is of {newest}")
        return found

    def check(self) -> Iterator[str]:
        import pyarrow.parquet as pq

        yield from self._due()
        for table in self.tables:
            found = self.ask("GET", f"/v1/tables/{table.id}/verification")
            yield from (f"{table.id}: {each}" for each in found.get("deviations", ()))
            for path in (Path(table.storage.root) / "_delta_log").glob("*.checkpoint.parquet"):
                adds = pq.read_table(path, columns=["add"])["add"].drop_null()  # type: ignore[no-untyped-call]
                if len(adds) != int(path.name.split(".")[0]):
                    yield f"{path} has {len(adds)} files"
            yield from _readable(table, table.get("head")["latest"])
        for path in self._hidden():
            _aged(path, 48)
        self.ask("POST", "/v1/gc", {"dry_run": False})
        yield from (f"{path} stays for ever" for path in self._hidden())

    def _hidden(self) -> list[Path]:
        logs = [Path(table.storage.root) / "_delta_log" for table in self.tables]
        return [path for log in logs for path in log.iterdir() if path.name.startswith(".")]

    def close(self) -> None:
        for table in self.tables:
            table.api.close()
        super().close()


KINDS: Final[dict[str, type[Work]]] = {
    each.kind: each  # type: ignore[type-abstract]
    for each in (Gc, Reset, Import, IcebergAppends, Checkpoints, Branching)
}
USUAL: Final = {"gc": 19, "reset": 22, "import": 24, "iceberg": 22, "checkpoints": 20, "branches": 20}
"""Kills of each kind, unless told otherwise."""


def main() -> None:
    """Plays the campaigns and prints a table; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Kill a server again and again in the midst of work.")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--kills", type=int, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    reports = []
    sys.stdout.write(HEADING + "\n")
    for kind in options.kinds:
        with TemporaryDirectory() as folder:
            report = campaign(Path(folder) / "home", KINDS[kind], options.kills or USUAL[kind], seed=options.seed)
        sys.stdout.write("\n".join([str(report), *report.problems]) + "\n")
        sys.stdout.flush()
        reports.append(report)
    sys.exit(any(report.problems for report in reports))


if __name__ == "__main__":
    main()

"""The work of ``kill_work`` with branches: they are made, written, updated, promoted and dropped by
a server that is killed at any moment (I28)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx

from tests.histories.interrupted import ENVIRONMENT, HOUR_MS, Work
from tests.support.stack import Table, eventually
from turnstile.adapters.sqlite.database import Database
from turnstile.store.core.writes import Row
from turnstile_server import Server

BRANCHES = "/v1/catalogs/main/branches"
OWN = "/v1/catalogs/main@dev/namespaces/default/tables/"


class Branching(Work):
    """A branch after the other, with commits on many tables; each is promoted or dropped. So many
    tables are prepared before the promotion is decided."""

    kind = "branches"
    moments_s = (0.0, 3.0)
    count = 52

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tables = [Table(self.server) for _ in range(self.count)]
        self.versions = dict.fromkeys((table.name for table in self.tables), 0)
        self.asked = ""
        self.changed: dict[str, int] = {}
        """The version of the branch's table with its commit, by name."""
        self.sent = ""
        """The catalog's table to which a commit was sent, without an answer so far."""
        self.written: set[str] = set()
        """Tables of the branch with a commit that was acknowledged, or that may be there."""
        self.own: set[str] = set()

    def prepare(self) -> None:
        pass

    def work(self) -> bool:
        while True:  # until it is killed
            self.changed = {}
            self.written = set()
            self.asked = "create"
            self.ask("POST", BRANCHES, {"name": "dev"})
            self.asked = "write"
            for table in self.rng.sample(self.tables, self.rng.choice((3, self.count))):
                self._write(table)
            if self.rng.random() < 0.5:
                self._update()
            self.asked = self.rng.choice(("promote", "promote", "drop"))
            if self.asked == "drop":
                self.ask("DELETE", f"{BRANCHES}/dev")
            else:
                self.ask("POST", f"{BRANCHES}/dev/promote", {})
                self._count()
            self.asked = ""
            self.report.done += 1

    def _write(self, table: Table) -> None:
        """A commit of the branch's table."""
        own = self.ask("GET", OWN + table.name)
        self.own.add(own["table_id"])
        mine = _Own(self.server, table, own["table_id"])
        self.written.add(table.name)
        mine.append(own["latest"] + 1)
        mine.api.close()
        self.changed[table.name] = own["latest"] + 1

    def _update(self) -> None:
        """Commits of tables that the branch did not change, which it takes over."""
        for table in [table for table in self.tables if table.name not in self.written][:3]:
            self.sent = table.name
            if table.append(self.versions[table.name] + 1)["outcome"] != "ratified":
                raise AssertionError(f"{table.name} takes no commit")
            self.versions[table.name] += 1
            self.sent = ""
        self.asked = "update"
        self.ask("POST", f"{BRANCHES}/dev/update")

    def _count(self) -> None:
        """The promotion added a version to each changed table."""
        for name in self.changed:
            self.versions[name] += 1

    def whole(self) -> bool:
        """The catalog shows all of the branch or nothing of it; the branch is ended."""
        there = self.api.get(f"{BRANCHES}/dev").status_code == 200
        heads = {table.name: table.get("head")["latest"] for table in self.tables}
        if self.sent:
            self.versions[self.sent] = min(heads[self.sent], self.versions[self.sent] + 1)
            self.sent = ""
        more = {name: heads[name] - self.versions[name] for name in heads}
        if self.asked == "promote" and not there:
            self._count()
            self.asked = ""
            more = {name: heads[name] - self.versions[name] for name in heads}
        if any(more.values()):
            odd = {name: number for name, number in more.items() if number}
            self.report.problems.append(f"branches: {self.asked or 'promoted'}, branch there: {there}, {odd}")
            return True
        if not there:
            self.asked = ""
            return True
        changed = self.changed if self.asked != "drop" else {}
        lost = [name for name, version in changed.items() if self._latest(name) < version]
        if lost:
            self.report.problems.append(f"branches: acknowledged commits of {lost} are not on the branch")
            return True
        return self._end()

    def _latest(self, name: str) -> int:
        return int(self.ask("GET", OWN + name)["latest"])

    def _end(self) -> bool:
        """Ends the branch as it was asked to; whether it is gone."""
        if self.asked == "promote":
            answer = self.api.post(f"{BRANCHES}/dev/promote", json={})
            if answer.status_code == 200:
                self._count()
        else:
            answer = self.api.delete(f"{BRANCHES}/dev")
        if answer.status_code not in (200, 204, 404, 409, 503):
            self.report.problems.append(f"branches: {self.asked}: {answer.status_code} {answer.text[:500]}")
            return True
        if answer.is_success:
            self.asked = ""
        return answer.is_success

    def check(self) -> Iterator[str]:
        for table in self.tables:
            latest = self.versions[table.name] + 1
            if (answer := table.append(latest))["outcome"] != "ratified":
                yield f"branches: {table.name} takes no commit: {answer}"
            table.settled(60)
            for version in range(latest + 1):
                if not table.storage.version(version):
                    yield f"branches: version {version} of {table.name} is not in the log"
        yield from self._collected()

    def _collected(self) -> Iterator[str]:
        """Everything of the branches that ended is removed in the end."""
        port = self.server.port
        self.server.stop()
        self.rows(_older)
        self.server = Server.start(self.server.home, port, environment=ENVIRONMENT)
        for _ in range(2):  # purged, then forgotten
            eventually(self._collect, 300)
            self.server.stop()
            self.rows(_older)
            self.server = Server.start(self.server.home, port, environment=ENVIRONMENT)
        database = Database(self.server.home / "turnstile.db", create=False)
        keys = [key for (key,) in database.rows("SELECT key FROM refs")]
        database.close()
        left = [key for key in keys for id in self.own if id in key]
        if left:
            yield f"branches: {len(left)} rows are left of branches that ended: {left[:3]}"

    def _collect(self) -> bool:
        answer = self.api.post("/v1/gc", json={"dry_run": False})
        return answer.status_code == 200 and answer.json()["complete"] and not answer.json()["items"]

    def close(self) -> None:
        for table in self.tables:
            table.api.close()
        super().close()


class _Own(Table):
    """A table of the branch."""

    def __init__(self, server: Server, table: Table, id: str) -> None:
        self.name = table.name
        self._timestamp_ms = 0
        self.api: httpx.Client = server.client(timeout=120.0)
        self.id = id
        self.storage = table.storage


def _older(row: Row) -> Row | None:
    """Tables were dropped two months ago."""
    if row["kind"] == "table" and row["state"] == "dropped":
        return {**row, "changed_at": row["changed_at"] - 60 * 24 * HOUR_MS}
    return None

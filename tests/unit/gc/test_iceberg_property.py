"""Iceberg tables at random: commits, crashes, resets, registrations, time and gc; every HEAD of the
kept history loads (I9, I10)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, days
from tests.support.iceberg.client import MAIN, SALES, Iceberg, others, set_properties
from turnstile.catalog.core.entities import ICEBERG_KINDS as ICEBERG
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.history.core import AsOf
from turnstile.gc.collector import Collector
from turnstile.gc.core import KINDS, Grace
from turnstile.store.core.errors import TurnstileError

GRACE = Grace(history_ms=2 * DAY, staging_ms=DAY)
Named = dict[str, str]
"""Metadata files by table."""


class Histories(RuleBasedStateMachine):
    """Tables that change, crash, go back, come and go, while gc runs; a record of every HEAD that
    was."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Iceberg()
        self.heads: list[tuple[int, Named]] = []
        self.named: dict[str, Named] = {}
        self.count = 0
        self.look()

    def look(self) -> None:
        """Record the present HEAD, and when it was seen first (ms)."""
        reader = self.client.services.open_catalog.reader
        tree = reader.current("main")
        entries = [entry for _, entry in tree.subtree(()) if entry.kind in ICEBERG]
        entities = reader.store.entities("main", [entry.obj for entry in entries])
        here = {entity.table_id: entity.metadata for entity in entities.values() if isinstance(entity, IcebergTable)}
        self.heads.append((self.client.world.clock.now_ms(), here))

    @property
    def tables(self) -> list[str]:
        return [entry["name"] for entry in self.client.get(f"{SALES}/tables").json["identifiers"]]

    @rule()
    def create(self) -> None:
        self.count += 1
        self.client.create(f"t{self.count}", properties={"write.metadata.previous-versions-max": "1"})
        self.look()

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 9), at=st.integers(0, 3), how=st.sampled_from(["before", "after", "unsent", "lost"]))
    def commit(self, which: int, at: int, how: Any) -> None:
        """Perhaps one that fails at a write."""
        self.count += 1
        path = f"{SALES}/tables/{self.tables[which % len(self.tables)]}"
        self.client.app.use_world(Faulty(self.client.world, at, how).world)
        with suppress(Crash):
            self.client.commit(set_properties(a=str(self.count)), path=path)
        self.client.services = self.client.app.use_world(self.client.world)
        self.look()

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 9), to=st.booleans())
    def drop_and_perhaps_register(self, which: int, *, to: bool) -> None:
        """Also a file that was the current one long ago."""
        name = self.tables[which % len(self.tables)]
        at = self.client.load(f"{SALES}/tables/{name}")
        assert self.client.delete(f"{SALES}/tables/{name}").status == 204
        self.look()
        folder = at["metadata-location"].rpartition("/")[0]
        there = sorted(path for path in self.client.files() if path.startswith(folder))
        if to:
            body = {"name": name, "metadata-location": there[which % len(there)]}
            assert self.client.post(f"{SALES}/register", body).status == 200
            self.look()

    @precondition(lambda self: self.tables)
    @rule(which=st.integers(0, 9))
    def rename(self, which: int) -> None:
        self.count += 1
        source = {"namespace": ["sales"], "name": self.tables[which % len(self.tables)]}
        body = {"source": source, "destination": {"namespace": ["sales"], "name": f"t{self.count}"}}
        assert self.client.post(f"{MAIN}/tables/rename", body).status == 204
        self.look()

    @rule(back=st.integers(1, 6))
    def reset(self, back: int) -> None:
        catalog = self.client.services.open_catalog
        with suppress(TurnstileError):
            seq = max(1, catalog.reader.current("main").commit.seq - back)  # the first commit makes the namespace
            since = self.client.world.clock.now_ms() - GRACE.history_ms
            catalog.history.kept_tree(catalog.reader.current("main"), AsOf(seq=seq), since)
            catalog.resetter.reset("main", AsOf(seq=seq))
        self.look()

    @rule()
    def name_the_present(self) -> None:
        self.count += 1
        self.client.services.open_catalog.named_snapshots.create("main", f"s{self.count}")
        self.named[f"s{self.count}"] = self.heads[-1][1]
        self.look()

    @precondition(lambda self: self.named)
    @rule()
    def forget_a_name(self) -> None:
        name = next(iter(self.named))
        self.client.services.open_catalog.named_snapshots.drop("main", name)
        del self.named[name]
        self.look()

    @rule(count=st.floats(0.01, 3))
    def time_passes(self, count: float) -> None:
        days(self.client.world, count)

    @rule(dies=st.integers(0, 3))
    def collect(self, dies: int) -> None:
        left = [dies]

        def die(name: str) -> None:
            left[0] -= name == "collect.deleted"
            if not left[0] and name == "collect.deleted":
                raise Crash(name)

        with suppress(Crash):
            report = Collector(self.client.world, GRACE, faults=die, workers=1).collect(KINDS, dry_run=False)
            assert not report.problems

    @invariant()
    def every_head_of_the_kept_history_loads(self) -> None:
        since = self.client.world.clock.now_ms() - GRACE.history_ms
        replaced = [at for at, _ in self.heads[1:]] + [since]
        kept = [named for (_, named), end in zip(self.heads, replaced, strict=True) if end >= since]
        files = self.client.world.storages.files
        for named in (*kept, *self.named.values()):
            assert {*named.values()} <= files.keys()
        for path in self.heads[-1][1].values():
            log = json.loads(files[path][0]).get("metadata-log", [])
            assert {entry["metadata-file"] for entry in log} <= files.keys()

    def teardown(self) -> None:
        """When nothing happens for long, only what is named is left of what was written in this
        life."""
        others(self.client)
        Collector(self.client.world, GRACE, workers=1).collect(["iceberg"], dry_run=False)
        self.every_head_of_the_kept_history_loads()
        super().teardown()


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(max_examples=examples(25), stateful_step_count=25)

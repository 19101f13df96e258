"""Sequences of engines' requests, against a model of a few lines: every answer, and the state of
every table after."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.unity import SCHEMA, B, Unity, published, refused
from turnstile.delta.publish import Publisher

CONFLICT = "CommitVersionConflictException"
NAMES = st.sampled_from(["a", "b", "c"])


class Table(msgspec.Struct):
    """The model's state of a table: commits as they were proposed, newest last; own properties;
    every etag it ever had."""

    uuid: str
    location: str
    commits: list[dict[str, Any]] = []
    floor: int = 0
    properties: dict[str, str] = {}
    etags: list[str] = []


class Model(RuleBasedStateMachine):
    """A schema with tables ``a``, ``b`` and ``c``, some of which exist."""

    def __init__(self) -> None:
        super().__init__()
        self.unity = Unity()
        self.tables: dict[str, Table] = {}

    def path(self, name: str) -> str:
        return f"{SCHEMA}/tables/{name}"

    def propose(self, table: Table, version: int) -> dict[str, Any]:
        """Write a staged file; its ``add-commit``."""
        now = self.unity.world.clock.now_ms()
        name = f"{version:020d}.{now}.json"
        content = delta.append(f"txn-{now}", now)
        self.unity.write(table.location, f"_delta_log/_staged_commits/{name}", content)
        said = {"version": version, "timestamp": now, "file-name": name, "file-size": len(content),
                "file-modification-timestamp": now}  # fmt: skip
        return {"action": "add-commit", "commit": said}

    def update(self, name: str, *updates: Any, etag: str | None = None) -> Answer:
        return self.unity.update(*updates, uuid=self.tables[name].uuid, etag=etag, path=self.path(name))

    # -- tables -------------------------------------------------------------------------------------------------------

    @rule(name=NAMES)
    def create(self, name: str) -> None:
        answer = self.unity.post(f"{SCHEMA}/staging-tables", {"name": name})
        if name in self.tables:
            refused(answer, 409, "AlreadyExistsException")
            return
        staged = answer.json
        self.unity.write_zero(staged)
        made = self.unity.post(f"{SCHEMA}/tables", self.unity.create_body(staged, name))
        assert made.status == 200, made.text
        self.tables[name] = Table(staged["table-id"], staged["location"], etags=[made.json["metadata"]["etag"]])

    @rule(name=NAMES, old_api=st.booleans())
    def drop(self, name: str, old_api: bool) -> None:
        path = f"{B}/tables/main.sales.{name}" if old_api else self.path(name)
        answer = self.unity.call("DELETE", path)
        there = self.tables.pop(name, None) is not None
        assert answer.status == (404 if not there else 200 if old_api else 204)

    @rule(name=NAMES, new=NAMES)
    def rename(self, name: str, new: str) -> None:
        answer = self.unity.post(f"{self.path(name)}/rename", {"new-name": new})
        if name not in self.tables:
            refused(answer, 404, "NoSuchTableException")
        elif new in self.tables and new != name:
            refused(answer, 409, "AlreadyExistsException")
        else:
            assert answer.status == 204
            self.tables[new] = self.tables.pop(name)

    # -- commits ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), off=st.integers(-3, 2), claim=st.booleans())
    def commit(self, data: Any, off: int, claim: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.tables)))
        table = self.tables[name]
        latest = len(table.commits)
        version = max(1, latest + 1 + off)
        proposed = self.propose(table, version)
        answer = self.update(name, proposed, *([published(latest)] if claim else []))
        if version <= latest:
            refused(answer, 409, CONFLICT)
        elif version > latest + 1:
            refused(answer, 400, "InvalidParameterValueException")
        else:
            assert answer.status == 200, answer.text
            table.commits.append(proposed)

    @precondition(lambda self: any(table.commits for table in self.tables.values()))
    @rule(data=st.data())
    def send_again(self, data: Any) -> None:
        """For any other members of the request, and however stale its etag: nothing changes
        (I3)."""
        name = data.draw(st.sampled_from(sorted(name for name, table in self.tables.items() if table.commits)))
        table = self.tables[name]
        proposed = data.draw(st.sampled_from(table.commits))
        etag = data.draw(st.sampled_from([None, "stale", *table.etags]))
        answer = self.update(name, proposed, {"action": "set-properties", "updates": {"never": "1"}}, etag=etag)
        assert answer.status == 200, answer.text

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def publish(self, data: Any) -> None:
        table = self.tables[data.draw(st.sampled_from(sorted(self.tables)))]
        Publisher(self.unity.world).publish(table.uuid)
        table.floor = len(table.commits)

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), value=st.sampled_from(["1", "2"]), remove=st.booleans())
    def describe(self, data: Any, value: str, remove: bool) -> None:
        """An own property, under an etag that may be an old one."""
        name = data.draw(st.sampled_from(sorted(self.tables)))
        table = self.tables[name]
        etag = data.draw(st.sampled_from(table.etags))
        change = {"action": "remove-properties", "removals": ["own"]}
        if not remove:
            change = {"action": "set-properties", "updates": {"own": value}}
        answer = self.update(name, change, etag=etag)
        if etag != table.etags[-1]:
            refused(answer, 409, "UpdateRequirementConflictException")
            return
        after = {} if remove else {"own": value}
        new = answer.json["metadata"]["etag"]
        assert (new not in table.etags) == (after != table.properties)
        if after != table.properties:
            table.properties = after
            table.etags = [*table.etags, new]

    # -- what is seen -------------------------------------------------------------------------------------------------

    @invariant()
    def i1_i6_every_table_is_what_the_model_says(self) -> None:
        listed = self.unity.get(f"{B}/tables", catalog_name="main", schema_name="sales").json["tables"]
        assert {one["name"]: one["table_id"] for one in listed} == {
            name: table.uuid for name, table in self.tables.items()
        }
        for name, table in self.tables.items():
            loaded = self.unity.get(self.path(name)).json
            assert loaded["metadata"]["table-uuid"] == table.uuid
            assert loaded["metadata"]["etag"] == table.etags[-1]
            assert loaded["latest-table-version"] == len(table.commits)
            assert loaded["commits"] == [one["commit"] for one in reversed(table.commits[table.floor :])]
            own = {key: value for key, value in loaded["metadata"]["properties"].items() if key in ("own", "never")}
            assert own == table.properties

    def teardown(self) -> None:
        for name in {"a", "b", "c"} - self.tables.keys():
            assert self.unity.call("HEAD", self.path(name)).status == 404


def run(examples: int, steps: int, *, derandomize: bool) -> None:
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_i1_i2_i3_i6_i9_what_engines_do_leaves_what_the_model_says() -> None:
    run(12, 20, derandomize=True)


@pytest.mark.slow
def test_i1_i2_i3_i6_i9_long_sequences_leave_what_the_model_says() -> None:
    run(examples(60), 40, derandomize=False)

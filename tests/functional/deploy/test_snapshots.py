"""The commit function from a snapshot (SnapStart): the state that a start leaves in it, and the
state that each sandbox from it makes anew."""

from __future__ import annotations

import json
import random
import sys
from typing import Any, Final

import pytest

from tests.support.fakes.world import fake_world
from tests.support.functions import cold_start
from tests.support.repository import ROOT
from tests.support.roles.parameters import EVERYTHING
from tests.support.roles.resolved import Resolved
from tests.support.roles.translated import translated
from turnstile.adapters.machine import SystemClock
from turnstile.api.services import Services
from turnstile.store.ports import World
from turnstile_cost import Idle, prices, warmth
from turnstile_local.deployment import read_template

_COPIES: Final = """
import json, os, random, sys, types
hooks = []
module = types.ModuleType("snapshot_restore_py")
module.register_after_restore = lambda function, *given, **more: hooks.append(lambda: function(*given, **more))
sys.modules["snapshot_restore_py"] = module
import app
ids = app.app.services.world.ids
ids.obj_id()
copies = []
for _ in range(2):
    reads, writes = os.pipe()
    if os.fork() == 0:
        [hook() for hook in hooks]
        made = {"uuid": ids.uuid(), "obj": ids.obj_id(), "hooks": len(hooks)}
        os.write(writes, json.dumps(made).encode())
        os._exit(0)
    os.wait()
    copies.append(json.loads(os.read(reads, 10_000)))
print(json.dumps(copies))
"""


def copies() -> list[dict[str, Any]]:
    """Returns the values that two copies of a started process make; a fork copies memory as a
    snapshot does."""
    made: list[dict[str, Any]] = cold_start("commit", _COPIES, AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    return made


def test_copies_of_a_snapshot_make_other_ids() -> None:
    one, other = copies()
    assert one["hooks"] == 1, "what Lambda calls after a restore"
    for member in ("uuid", "obj"):
        assert one[member] != other[member], member


def test_a_sandbox_that_goes_on_after_days_does_not_take_its_clock_for_one_that_is_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SystemClock()
    world = fake_world()
    days_later = clock.now_ms() + 10 * 86_400_000
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: days_later)
    assert clock.jumped_ms() > 9 * 86_400_000, "no time has passed that the process knows of"
    Services(World(world.refs, world.objs, world.storages, clock, world.ids, world.space)).begin_anew()
    assert clock.jumped_ms() == 0


def test_numbers_that_spread_retries_begin_anew() -> None:
    before = random.getstate()
    Services(fake_world()).begin_anew()
    one = random.random()
    random.setstate(before)
    assert one != random.random()


def test_a_start_that_is_no_snapshot_registers_nothing() -> None:
    """There, the module of the runtime is not even imported: other runtimes have none."""
    assert "snapshot_restore_py" not in sys.modules


def test_requests_go_to_the_version_that_is_the_snapshot_and_another_text_or_other_code_makes_another() -> None:
    template = read_template(ROOT / "template.yaml")

    def stack(**given: str) -> Resolved:
        return Resolved({**template, "Resources": translated(template)}, {**EVERYTHING, **given})

    on = stack(SnapStart="one")
    off = stack(SnapStart="")
    assert on.resources["CommitAlias"]["Properties"]["Name"] == "snapshot"
    assert not {"CommitVersion", "CommitAlias"} & off.resources.keys()
    described = on.resources["CommitVersion"]["Properties"]["Description"]
    assert described != stack(SnapStart="two").resources["CommitVersion"]["Properties"]["Description"]
    assert described.startswith("one ") and "SharedLayer" in json.dumps(translated(template)["CommitVersion"])
    for given, function in ((on, "CommitAlias"), (off, "CommitFunction")):
        assert function in json.dumps(given.resources["CommitPermission"]["Properties"]["FunctionName"])
        assert function in json.dumps(given.resources["CommitIntegration"]["Properties"]["IntegrationUri"])


def test_a_snapshot_is_paid_for_while_nothing_starts_from_it() -> None:
    at = prices()
    assert warmth(Idle(), at)["snapshots"] == 0
    assert warmth(Idle(snapshots=1), at)["snapshots"] == pytest.approx(3.9, abs=0.1)
    assert warmth(Idle(snapshots=1), at)["a start"] == pytest.approx(0.00014, abs=0.00001)

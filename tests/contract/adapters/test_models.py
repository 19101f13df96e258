"""The models know every attribute the core speaks of, and refuse what they do not know (I2: nothing
is half stored)."""

from __future__ import annotations

import re
from inspect import isfunction, signature
from pathlib import Path

import pytest

import turnstile
from tests.support.store.rows import change, head_row
from turnstile.adapters.dynamo.models import KINDS, from_item, model_of, to_item
from turnstile.adapters.dynamo.refs import write_request
from turnstile.catalog.core.request_rows import request_row
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Append, Equals, Include, Insert, Set

KEY = "contract/table/t"
SOURCES = sorted(path for path in Path(turnstile.__file__).parent.rglob("*.py") if "core" in path.with_suffix("").parts)
PLANNED = re.compile(
    r"\b(?:Set|SetSum|Append|Include|Exclude|Drop|Equals|Below|At\w+|Absent|Present|Lacks)\(\(\"(\w+)\""
)
READ = re.compile(r"\brow(?:\[|\.get\()\"(\w+)\"")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_i2_every_attribute_the_core_plans_with_or_reads_is_declared(source: Path) -> None:
    declared = {name for model in KINDS.values() for name in model.get_attributes()}
    text = source.read_text()
    assert {*PLANNED.findall(text), *READ.findall(text)} <= declared


NAMES = {"dropped_catalog": "gone"}
"""Kinds whose keys are made by a function of another name."""


@pytest.mark.parametrize("kind", [kind for kind, made in vars(Space).items() if isfunction(made) and kind[0] != "_"])
def test_i9_every_kind_of_row_that_a_key_is_made_for_has_a_model(kind: str) -> None:
    """External tables had none: registered on the fake, refused by DynamoDB's adapter."""
    make = getattr(Space("contract"), kind)
    key = make(*("x" for _ in signature(make).parameters))
    assert kind == "objs" or model_of(key) is KINDS[NAMES.get(kind, kind.replace("_", "-"))]


def test_i3_a_refusal_is_kept_as_it_was_answered() -> None:
    error = StateConflict(ErrorType.CANNOT_RESET, "it cannot", field="to.seq", remedy="do not", limit=5, what="table")
    row = request_row(Space("contract").request("main", "ann", "k"), "asked", 1, status=409, error=error).row
    assert {"type", "message", "field", "remedy", "details"} <= set(row)
    model = model_of(row["key"])
    assert from_item(model, to_item(model, row)) == row


@pytest.mark.parametrize(
    "write",
    [
        Insert(head_row(KEY) | {"surprise": 1}, ()),
        Insert({name: value for name, value in head_row(KEY).items() if name != "latest"}, ()),
        change(KEY, Set(("surprise",), 1)),
        change(KEY, Set(("latest", "below"), 1)),
        change(KEY, Append(("surprise",), (b"x",))),
        change(KEY, Set(("latest",), 1), when=(Equals(("surprise",), 1),)),
        change(KEY),
        change("contract/surprise/t", Set(("latest",), 1)),
        change("no-kind", Set(("latest",), 1)),
    ],
    ids=lambda write: "",
)
def test_i2_what_no_model_declares_is_refused_before_anything_is_sent(write: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_request("refs", write)  # type: ignore[arg-type]


def test_i6_an_attribute_that_a_newer_release_wrote_does_not_break_an_older_reader() -> None:
    item = to_item(KINDS["table"], head_row(KEY))
    assert from_item(model_of(KEY), item | {"future": {"S": "x"}}) == head_row(KEY)


def test_i3_the_same_write_is_rendered_the_same_to_the_byte_whatever_the_order_of_a_set() -> None:
    """A transaction is only recognised under its token when it is the same request."""
    names = [f"txn-{number}" for number in range(50)]
    first = write_request("refs", change(KEY, Include(("ids",), frozenset(names))))
    second = write_request("refs", change(KEY, Include(("ids",), frozenset(reversed(names)))))
    assert first == second
    assert first["ExpressionAttributeValues"][":0"] == {"SS": sorted(names)}

"""The form that a schema must have before a commit that holds it is ratified: whoever loads the table relies on it (I2)."""

from __future__ import annotations

from typing import Any

import pytest

from turnstile.delta.core.content import is_struct


def field(**members: Any) -> dict[str, Any]:
    return {"name": "a", "type": "long", "nullable": True, "metadata": {}} | members


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


ARRAY = {"type": "array", "elementType": struct(field()), "containsNull": False}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}


@pytest.mark.parametrize(
    "schema",
    [
        struct(),
        struct(field(), field(name="b", type="decimal(10,2)")),
        struct({"name": "a", "type": "long"}),
        struct(field(metadata=None)),
        struct(field(type=ARRAY), field(type=MAP), field(type=struct(field()))),
        struct(field(type={"type": "array", "elementType": "long"})),
        struct(field(type={"type": "udt", "class": "x", "sqlType": ARRAY})),
    ],
)
def test_schemas_that_can_be_read(schema: Any) -> None:
    assert is_struct(schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "struct"},
        {"type": "struct", "fields": {}},
        {"type": "map", "fields": []},
        struct("a"),
        struct({"type": "long"}),
        struct(field(name=1)),
        struct(field(type=None)),
        struct(field(type="")),
        struct(field(type={"fields": []})),
        struct(field(type={"type": "udt", "class": "x"})),
        struct(field(type={"type": "set", "elementType": "long"})),
        struct(field(nullable=None)),
        struct(field(metadata=[])),
        struct(field(type=struct(field(name=None)))),
        struct(field(type={**ARRAY, "elementType": None})),
        struct(field(type={**ARRAY, "containsNull": 1})),
        struct(field(type={**MAP, "keyType": {}})),
        struct(field(type={**MAP, "valueType": struct({})})),
        struct(field(type={**MAP, "valueContainsNull": "no"})),
    ],
)
def test_i2_schemas_that_nobody_could_read_are_not_ratified(schema: Any) -> None:
    assert not is_struct(schema)


@pytest.mark.parametrize("kind", ["array", "struct"])
def test_nesting_has_an_end(kind: str) -> None:
    type: Any = "long"
    for _ in range(120):
        type = struct(field(type=type)) if kind == "struct" else {"type": "array", "elementType": type}
    assert not is_struct(struct(field(type=type)))

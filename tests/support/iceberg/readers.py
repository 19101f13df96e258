"""The conditions of readers on a metadata file, stated once more by the table specification and
Java's ``TableMetadata``, on the JSON itself and with none of the code that wrote it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

MINUTE = 60_000

TIMES = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
BUCKETED = TIMES | {"int", "long", "decimal", "date", "time", "string", "uuid", "fixed", "binary"}
TRUNCATED = {"int", "long", "decimal", "string", "binary"}
TAKES = {"bucket": BUCKETED, "truncate": TRUNCATED, "hour": TIMES}
TAKES |= dict.fromkeys(("year", "month", "day"), TIMES | {"date"})

Column = tuple[str, Any, list[tuple[str, bool]]]
"""Full name, type, and for each node above whether it is a struct, and required."""


def takes(transform: str, type: str) -> bool:
    """Whether a primitive type is a source type of a transform."""
    base = re.split(r"[(\[]", type)[0]
    kind = re.split(r"\[", transform)[0]
    return base in TAKES[kind] if kind in TAKES else kind == "void" or base not in ("geometry", "geography")


def columns(schema: dict[str, Any]) -> dict[int, Column]:
    """Every node of a schema by its id; a name or an id that is there twice is an error."""
    found: dict[int, Column] = {}
    for id, column in _inside(schema, "", []):
        assert id not in found, f"field id {id} twice"
        found[id] = column
    twice = [name for name, times in Counter(name for name, _, _ in found.values()).items() if times > 1]
    assert not twice, f"columns {twice} twice"
    for name, type, path in found.values():
        assert type != "unknown" or not path[-1][1], f"{name} is required and has no values but null"
    return found


def _inside(type: Any, name: str, above: list[tuple[str, bool]]) -> Iterator[tuple[int, Column]]:
    if isinstance(type, str):
        return
    below = f"{name}." if name else ""
    kind = type["type"]
    if kind == "struct":
        nodes = [(one["id"], one["name"], one["type"], one["required"]) for one in type["fields"]]
    elif kind == "list":
        nodes = [(type["element-id"], "element", type["element"], type["element-required"])]
    else:
        nodes = [(type["key-id"], "key", type["key"], True), (type["value-id"], "value", type["value"], True)]
    for id, member, inner, required in nodes:
        path = [*above, (kind, required)]
        yield id, (below + member, inner, path)
        yield from _inside(inner, below + member, path)


def check(said: dict[str, Any]) -> None:
    """Fails where a reader would."""
    version = said["format-version"]
    schemas = {one["schema-id"]: one for one in said["schemas"]}
    specs = {one["spec-id"]: one for one in said["partition-specs"]}
    orders = {one["order-id"]: one for one in said["sort-orders"]}
    assert len(schemas) == len(said["schemas"]) and len(specs) == len(said["partition-specs"])
    for schema in schemas.values():
        _check_identifiers(schema, columns(schema))
    found = columns(schemas[said["current-schema-id"]])
    assert said["default-spec-id"] in specs
    for id, spec in specs.items():
        _check_spec(spec, found, current=id == said["default-spec-id"])
    for field in orders[said["default-sort-order-id"]]["fields"]:
        _check_source(field, found)
    assert all((id == 0) == (not order["fields"]) for id, order in orders.items())
    _check_snapshots(said, version)
    _check_log([one["timestamp-ms"] for one in said["snapshot-log"]], said["last-updated-ms"])
    _check_log([one["timestamp-ms"] for one in said["metadata-log"]], said["last-updated-ms"])


def _check_identifiers(schema: dict[str, Any], found: dict[int, Column]) -> None:
    for id in schema.get("identifier-field-ids", ()):
        name, type, path = found[id]
        assert isinstance(type, str) and type not in ("float", "double", "variant"), f"{name} identifies"
        assert all(kind == "struct" and required for kind, required in path), f"{name} is inside something"


def _check_spec(spec: dict[str, Any], found: dict[int, Column], *, current: bool) -> None:
    names = [field["name"] for field in spec["fields"]]
    assert all(names) and len({*names}) == len(names)
    ids = {name: id for id, (name, _, _) in found.items()}
    for field in spec["fields"]:
        if field["source-id"] in found:
            assert ids.get(field["name"], field["source-id"]) == field["source-id"], f"{field} is another column's name"
        if field["transform"] != "void" and (current or field["source-id"] in found):
            _check_source(field, found)


def _check_source(field: dict[str, Any], found: dict[int, Column]) -> None:
    name, type, path = found[field["source-id"]]
    assert isinstance(type, str) and type != "variant", f"{field} of {name}"
    assert all(kind == "struct" for kind, _ in path), f"{field} of {name}"
    assert takes(field["transform"], type), f"{field} of a {type}"


def _check_snapshots(said: dict[str, Any], version: int) -> None:
    known = {one["snapshot-id"]: one for one in said["snapshots"]}
    numbers = [one.get("sequence-number", 0) for one in known.values()]
    assert len(known) == len(said["snapshots"])
    assert max(numbers, default=0) <= said.get("last-sequence-number", 0)
    roots = [one for one in known.values() if "parent-snapshot-id" not in one]
    later = [one.get("sequence-number", 0) for one in known.values() if one not in roots and one.get("sequence-number")]
    assert len({*later}) == len(later), "a sequence number was given out twice"
    for one in known.values():
        parent = known.get(one.get("parent-snapshot-id", 0), {}).get("sequence-number", 0)
        assert not parent or parent < one["sequence-number"], "a history in which a sequence number is not new"
    current = said.get("current-snapshot-id")
    main = said["refs"].get("main", {}).get("snapshot-id")
    assert main == (None if current == -1 else current)
    for name, ref in said["refs"].items():
        assert ref["snapshot-id"] in known, name
        kept = [ref.get(member) for member in ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")]
        assert all(one is None or one > 0 for one in kept), name
        assert ref["type"] == "branch" or kept[1:] == [None, None], name
    rows = sorted((one["first-row-id"], one["added-rows"]) for one in known.values() if "first-row-id" in one)
    assert version < 3 or all(first + more <= said["next-row-id"] for first, more in rows)
    assert all(first + more <= after for (first, more), (after, _) in pairwise(rows)), "a row id was given out twice"


def _check_log(times: Sequence[int], updated: int) -> None:
    assert all(after >= before - MINUTE for before, after in pairwise([*times, updated])), times

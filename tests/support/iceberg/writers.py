"""Writers of one Iceberg table, as bad as they can be: each uses the state that it saw last and a
clock of its own, and requests anything that the specification allows."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from tests.support.functions import Answer
from tests.support.iceberg.client import SALES, T1, Iceberg, add_snapshot, at_ref, set_properties, set_ref

HOUR = 3_600_000
CLOCKS = (0, 0, 900, -900, 90_000, -90_000, 5 * HOUR, -5 * HOUR, 10**12, -(10**12))
"""By how many ms a writer's clock may be ahead."""

TYPES = ("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
         "binary", "fixed[4]", "decimal(9, 2)")  # fmt: skip
TYPES_OF_3 = ("timestamp_ns", "timestamptz_ns", "variant", "geometry", "unknown")
TRANSFORMS = ("identity", "void", "year", "month", "day", "hour", "bucket[4]", "truncate[3]")
DEFAULTS = (True, 1, 1.5, 2**40, "x", "1.25", "2026-01-01", "10:20:30", "2026-01-01T10:20:30", "2026-01-01T10:20:30Z",
            "2026-01-01T10:20:30+00:00",
            "00000000-0000-4000-8000-000000000001", "00ff00ff", {}, [])  # fmt: skip
NAMES = ("a", "b", "c", "a_day", "b_bucket", "s")


class Writers:
    """Some clients of the table ``t1``.

    Attributes:
        answers: to every request, in order.
    """

    def __init__(self, random: Random, clients: int = 3) -> None:
        self.random = random
        self.client = Iceberg()
        self.answers: list[Answer] = []
        self._ids = 0
        made = self._created()
        self._seen = [made] * clients
        self._clocks = [random.choice(CLOCKS) for _ in range(clients)]

    def files(self) -> list[dict[str, Any]]:
        """The metadata files that commits wrote, one after the other."""
        storage = self.client.world.storages.files
        named = [one.json["metadata-location"] for one in self.answers if one.status == 200]
        return [json.loads(storage[path][0]) for path in dict.fromkeys(named)]

    def step(self) -> Answer:
        """One commit of one of them; a refused writer may load the table again, or not."""
        random = self.random
        self.client.world.clock.now += random.choice((0, 10, 1_000, 10 * HOUR))
        who = random.randrange(len(self._seen))
        if random.random() < 0.5:
            self._seen[who] = self.client.load()["metadata"]
        base = self._seen[who]
        now = self.client.world.clock.now + self._clocks[who]
        updates = [one for _ in range(random.choice((1, 1, 1, 2))) for one in self._updates(base, now)]
        head = base["refs"].get("main", {}).get("snapshot-id")
        required = random.choice(((), (), [at_ref(head)]))
        answer = self.client.commit(*updates, require=required, path=T1)
        self.answers.append(answer)
        if answer.status == 200:
            self._seen[who] = answer.json["metadata"]
        return answer

    def _created(self) -> dict[str, Any]:
        """The table; refused creations are a part of the test."""
        for _ in range(100):
            version = self.random.choice((1, 2, 2, 3))
            asked = {
                "name": "t1",
                "schema": {"type": "struct", **self._schema({}, version)},
                "partition-spec": self._spec(range(1, 4)),
                "write-order": self._order(range(1, 4)),
                "properties": {"format-version": str(version)},
            }
            self.answers.append(self.client.post(f"{SALES}/tables", asked))
            if self.answers[-1].status == 200:
                return dict(self.answers[-1].json["metadata"])
        self.answers.append(
            self.client.post(
                f"{SALES}/tables",
                {**asked, "partition-spec": None, "write-order": None, "schema": {"type": "struct", "fields": []}},
            )
        )
        return dict(self.answers[-1].json["metadata"])

    def _updates(self, base: dict[str, Any], now: int) -> list[dict[str, Any]]:
        kinds = {
            self._append: 6, self._replace: 2, self._point: 2, self._forget: 2, self._reshape: 2, self._repartition: 2,
            self._resort: 1, self._choose: 1, self._upgrade: 1, self._statistics: 1,
        }  # fmt: skip
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        return kind(base, now)

    def _snapshot(self, base: dict[str, Any], now: int, parent: int | None) -> dict[str, Any]:
        random = self.random
        version = base["format-version"]
        self._ids += 1
        # the writer's own next number, now and then one of nobody's
        number = base.get("last-sequence-number", 0) + random.choice((1, 1, 1, 1, 0, 5)) if version > 1 else 0
        more = {"timestamp-ms": max(0, now), "schema-id": base["current-schema-id"]}
        if version > 2:
            rows = random.choice((0, 10))
            more |= {"first-row-id": base["next-row-id"] + random.choice((0, 0, 0, 3)), "added-rows": rows}
        return add_snapshot(self._ids, parent, number, **more)

    def _append(self, base: dict[str, Any], now: int) -> list[dict[str, Any]]:
        name = self.random.choice(("main", "main", "main", "b1", "b2"))
        parent = base["refs"].get(name, {}).get("snapshot-id")
        added = self._snapshot(base, now, parent)
        return [added, set_ref(self._ids, name)]

    def _replace(self, base: dict[str, Any], now: int) -> list[dict[str, Any]]:
        """CREATE OR REPLACE TABLE ... AS SELECT."""
        gone = {"action": "remove-snapshot-ref", "ref-name": "main"}
        return [gone, self._snapshot(base, now, None), set_ref(self._ids)]

    def _point(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        random = self.random
        known = [one["snapshot-id"] for one in base["snapshots"]] or [1]
        kept = ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
        more = {name: random.choice((0, 1, 100)) for name in kept if random.random() < 0.2}
        name, type = random.choice((("main", "branch"), ("b1", "branch"), ("t1", "tag"), ("b2", "tag")))
        return [set_ref(random.choice(known), name, type, **more)]

    def _forget(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        random = self.random
        known = [one["snapshot-id"] for one in base["snapshots"]]
        gone = {"action": "remove-snapshots", "snapshot-ids": random.sample(known, min(len(known), 2))}
        dropped = {"action": "remove-snapshot-ref", "ref-name": random.choice(("b1", "t1", "main"))}
        return [random.choice((gone, gone, dropped))]

    def _reshape(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        current = next(one for one in base["schemas"] if one["schema-id"] == base["current-schema-id"])
        made = self._schema(current, base["format-version"], base["last-column-id"])
        return [{"action": "add-schema", "schema": made}, {"action": "set-current-schema", "schema-id": -1}]

    def _schema(self, now: dict[str, Any], version: int, last: int = 0) -> dict[str, Any]:
        """A schema like ``now`` with a column more, or fewer, or of another kind."""
        random = self.random
        types = TYPES + (TYPES_OF_3 if version > 2 else ())
        fields = copy.deepcopy(now.get("fields", []))
        for _ in range(random.choice((1, 2)) if fields else 3):
            last += 1
            type: Any = random.choice(types)
            if random.random() < 0.2:
                inner = {"id": last + 1, "name": "x", "type": type, "required": random.random() < 0.8}
                type = {"type": "struct", "fields": [inner]}
                last = last + 1
            elif random.random() < 0.1:
                type = {"type": "list", "element-id": last + 1, "element": type, "element-required": True}
                last += 1
            required = random.random() < 0.6 and type != "unknown"
            id = last if isinstance(type, str) else last - 1
            free = [name for name in NAMES if all(field["name"] != name for field in fields)]
            name = random.choice(free if free and random.random() < 0.95 else NAMES)
            field = {"id": id, "name": name, "type": type, "required": required}
            if version > 2 and random.random() < 0.4:
                field[random.choice(("initial-default", "write-default"))] = random.choice(DEFAULTS)
            fields.append(field)
        if len(fields) > 3 and random.random() < 0.5:
            fields.pop(random.randrange(len(fields)))
        ids = [id for field in fields for id in (field["id"], field["id"] + 1)]
        chosen = [random.choice(ids)] if random.random() < 0.3 else []
        return {"type": "struct", "schema-id": 0, "fields": fields, "identifier-field-ids": chosen}

    def _repartition(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        spec = self._spec(range(1, base["last-column-id"] + 1))
        return [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]

    def _spec(self, sources: range) -> dict[str, Any]:
        random = self.random
        fields = [
            {"source-id": random.choice(sources), "transform": random.choice(TRANSFORMS), "name": random.choice(NAMES)}
            for _ in range(random.choice((0, 1, 1, 2)) if sources else 0)
        ]
        return {"fields": fields}

    def _resort(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        order = self._order(range(1, base["last-column-id"] + 1))
        return [
            {"action": "add-sort-order", "sort-order": order},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]

    def _order(self, sources: range) -> dict[str, Any]:
        random = self.random
        fields = [
            {"source-id": random.choice(sources), "transform": random.choice(TRANSFORMS), "direction": "asc",
             "null-order": "nulls-first"}
            for _ in range(random.choice((0, 1)) if sources else 0)
        ]  # fmt: skip
        return {"order-id": 1 if fields else 0, "fields": fields}

    def _choose(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        """Back to an earlier state, or its removal."""
        schema = self.random.choice(base["schemas"])["schema-id"]
        spec = self.random.choice(base["partition-specs"])["spec-id"]
        return [
            self.random.choice(
                (
                    {"action": "set-current-schema", "schema-id": schema},
                    {"action": "set-default-spec", "spec-id": spec},
                    {"action": "remove-schemas", "schema-ids": [schema]},
                    {"action": "remove-partition-specs", "spec-ids": [spec]},
                )
            )
        ]

    def _upgrade(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        return [{"action": "upgrade-format-version", "format-version": min(3, base["format-version"] + 1)}]

    def _statistics(self, base: dict[str, Any], _now: int) -> list[dict[str, Any]]:
        if not base["snapshots"]:
            return [set_properties(**{"write.metadata.previous-versions-max": "2"})]
        id = self.random.choice(base["snapshots"])["snapshot-id"]
        file = {"snapshot-id": id, "statistics-path": "file:///lake/p.parquet", "file-size-in-bytes": 9}
        return [{"action": "set-partition-statistics", "partition-statistics": file}]

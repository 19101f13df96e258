"""A Delta table in an Iceberg client's catalog, on fakes: created as an engine would, and committed
to by the real commit handler."""

from __future__ import annotations

import json
from typing import Any

from tests.support.fakes import delta
from tests.support.functions import Http, function
from tests.support.iceberg.client import Iceberg
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.store.core.names import published_path

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
"""A deletion vector."""
ID_AND_DAY: tuple[tuple[str, Any], ...] = (("id", "long"), ("day", "date"))


def field(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
    """A field of a Delta schema."""
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def metadata(fields: list[dict[str, Any]], partitions: tuple[str, ...] = (), **configuration: str) -> dict[str, Any]:
    """A ``metaData`` action with these fields."""
    made = delta.metadata(**configuration)
    made["metaData"] |= {
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitions),
    }
    return made


def protocol(*features: str) -> dict[str, Any]:
    """A protocol with these features of readers, beside the one that every table here has."""
    made = delta.protocol(*features)
    made["protocol"]["readerFeatures"] = [*made["protocol"]["readerFeatures"], *features]
    return made


def add(
    path: str, rows: int = 1, *, day: str | None = None, ids: tuple[int, int] | None = None, **more: Any
) -> dict[str, Any]:
    """An ``add`` action; ``ids`` the least and the greatest ``id`` in it."""
    stats: dict[str, Any] = {"numRecords": rows}
    if ids is not None:
        stats |= {"minValues": {"id": ids[0]}, "maxValues": {"id": ids[1]}, "nullCount": {"id": 0}}
    return delta.add(path, partitionValues={"day": day}, **{"stats": json.dumps(stats)} | more)


class DeltaTable:
    """``main.sales.<name>``, partitioned by ``day`` unless other ``fields`` are given; ``path`` is
    its path in the Iceberg API."""

    def __init__(
        self,
        client: Iceberg,
        name: str = "d1",
        *,
        fields: list[dict[str, Any]] | None = None,
        partitions: tuple[str, ...] | None = None,
        features: tuple[str, ...] = (),
        **configuration: str,
    ) -> None:
        self.client = client
        self.path = f"/iceberg/v1/main/namespaces/sales/tables/{name}"
        services = client.services.open_catalog
        staged = services.staging.create("main", ("sales",), name)
        chosen = partitions if partitions is not None else ("day",) if fields is None else ()
        made = metadata(fields or [field(*each) for each in ID_AND_DAY], chosen, **configuration)
        zero = delta.lines(delta.info(f"zero-{name}", client.world.clock.now_ms()), protocol(*features), made)
        client.world.storages.open(staged.location).put_if_absent(published_path(0), zero)
        services.registrar.register("main", ("sales",), name, staged.table_id)
        self.id = staged.table_id
        self.location = staged.location
        self.version = 0
        self.metadata = made

    def commit(self, *actions: dict[str, Any]) -> int:
        """Commits these actions as the next version, which is returned; it is not published."""
        app = function("commit")
        app.use_world(self.client.world)
        self.version += 1
        info = delta.info(f"{self.id}-{self.version}", self.client.world.clock.now_ms())
        body = {"version": self.version, "inline": {"content": delta.lines(info, *actions).decode()}}
        answer = Http(app.app).post(f"/v1/tables/{self.id}/commits", body)
        assert answer.status == 200, answer.text
        return self.version

    def publish(self) -> None:
        Publisher(self.client.world).publish(self.id)

    @property
    def head(self) -> TableHead:
        return TableHead.from_row(self.client.world.refs.rows[self.client.world.space.table(self.id)])

    def plan(self, **body: Any) -> dict[str, Any]:
        """The plan of a scan; members of the request have underscores."""
        answer = self.client.post(f"{self.path}/plan", {name.replace("_", "-"): each for name, each in body.items()})
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def files(self, **body: Any) -> dict[str, Any]:
        """The names of the files that a scan reads, each with what is left to filter, of all
        answers."""
        answer = self.plan(**body)
        found: dict[str, Any] = {}
        while True:
            for task in answer["file-scan-tasks"]:
                name = task["data-file"]["file-path"].removeprefix(f"{self.location}/")
                assert name not in found
                found[name] = task["residual-filter"]
            if "plan-tasks" not in answer:
                return found
            more = self.client.post(f"{self.path}/tasks", {"plan-task": answer["plan-tasks"][0]})
            assert more.status == 200, more.text
            answer = more.json

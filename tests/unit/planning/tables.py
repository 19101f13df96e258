"""A Delta table whose history is random, and the files that each of its versions has, computed in
the plainest way."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.planning.core.roots import Sizes

SMALL = Sizes(every=2, leaf_rows=4, run_rows=8, deltas=2, pending=3, rewrites=2)
"""Sizes with which a few files make many leaves."""
DAYS = 4


def field(name: str, type: str) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def metadata(*more: str) -> dict[str, Any]:
    columns = [field("day", "integer"), field("id", "long"), *(field(name, "string") for name in more)]
    action = delta.metadata()["metaData"]
    return {
        "metaData": {
            **action,
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": ["day"],
        }
    }


def vector(number: int) -> dict[str, Any]:
    return {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": number,
        "sizeInBytes": 40,
        "cardinality": 1,
    }


class History:
    """A table partitioned by ``day``, with a column ``id``. ``states``: by version, the ``add`` of
    each of its files."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.table = Table(fake_world())
        self.world = self.table.world
        self.id = self.table.id
        self.states: list[dict[str, dict[str, Any]]] = [{}]
        self._number = 0
        with_vectors = delta.protocol("deletionVectors")
        with_vectors["protocol"]["readerFeatures"] = [*with_vectors["protocol"]["readerFeatures"], "deletionVectors"]
        self._commit([with_vectors, metadata()])

    @property
    def head(self) -> Any:
        return self.table.head

    def publish(self) -> None:
        Publisher(self.world).publish(self.id)

    def step(self) -> None:
        """A commit that adds, removes, moves, marks rows of files, or says the same of a file
        again."""
        actions: list[dict[str, Any]] = []
        state = self.states[-1]
        for path in self.rng.sample(sorted(state), min(len(state), self.rng.randrange(3))):
            actions += self._change(path, state[path])
        actions += [self._add() for _ in range(self.rng.randrange(5))]
        if self.rng.random() < 0.05:
            actions.append(metadata("note"))
        self._commit(actions)

    def _add(self) -> dict[str, Any]:
        self._number += 1
        low = self.rng.randrange(100)
        stats = {"numRecords": 3, "minValues": {"id": low}, "maxValues": {"id": low + 5}, "nullCount": {"id": 0}}
        text = json.dumps(stats) if self.rng.random() < 0.9 else None
        day = self.rng.choice([*map(str, range(DAYS)), None])
        return delta.add(f"f{self._number}", stats=text, partitionValues={"day": day}, size=self._number)

    def _change(self, path: str, add: dict[str, Any]) -> list[dict[str, Any]]:
        old = add.get("deletionVector")
        removal = delta.remove(path)
        removal["remove"] |= {"deletionVector": old} if old else {}
        kind = self.rng.randrange(4)
        if kind == 0:  # the same logical file again
            return [{"add": {**add, "tags": {"again": "yes"}}}]
        if kind == 1 and add["stats"] is not None:
            self._number += 1
            return [removal, {"add": {**add, "deletionVector": vector(self._number)}}]
        return [removal]

    def _commit(self, actions: list[dict[str, Any]]) -> None:
        version = self.head.latest + 1
        stamp = max(self.world.clock.now_ms(), self.head.last_ict + 1)
        content = delta.lines(delta.info(f"c-{version}", stamp), *actions)
        answer = self.table.ratifier.commit(CommitRequest(self.id, version, content=content))
        assert isinstance(answer, Ratified), answer
        self.table._ratified(answer, content, "")
        state = dict(self.states[-1])
        for action in actions:
            if "remove" in action:
                state.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                state[action["add"]["path"]] = action["add"]
        self.states.append(state)
        self.world.clock.now += 60_000

    def ids(self, add: dict[str, Any]) -> tuple[int, int] | None:
        """Least and greatest ``id`` of a file; None where they are not known."""
        if add.get("stats") is None:
            return None
        stats = json.loads(add["stats"])
        return stats["minValues"]["id"], stats["maxValues"]["id"]

"""Members and granules in ZooKeeper, through kazoo: ephemeral nodes, a node for each granule, multis."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.fleet.coordinated import Epochs

MEMBERS, GRANULES, GIVEN = "/members", "/granules", "/given"


class ZooKeeper:
    """``coordinated.Service``. A node's version is its granule's epoch, less one."""

    def __init__(self, hosts: str, id: str, ttl_s: float) -> None:
        self._client, self._id = KazooClient(hosts=hosts, timeout=ttl_s), id
        self.changed = threading.Event()
        self._read = set[str]()

    def join(self) -> None:
        if not self._client.connected:
            self._client.start()
        for path in (MEMBERS, GRANULES, f"{GIVEN}/{self._id}"):
            self._client.ensure_path(path)
        self._client.create(f"{MEMBERS}/{self._id}", b"0", ephemeral=True)

    def leave(self) -> None:
        self._client.delete(f"{MEMBERS}/{self._id}")

    def _woken(self, _: Any) -> None:
        self.changed.set()

    def members(self) -> set[str]:
        return set(self._client.get_children(MEMBERS, watch=self._woken))

    def counts(self, ids: Iterable[str]) -> dict[str, int]:
        reads = {id: self._client.get_async(f"{MEMBERS}/{id}") for id in ids}
        counts = {}
        for id, read in reads.items():
            try:
                counts[id] = int(read.get()[0])
            except NoNodeError:
                continue
        return counts

    def show(self, count: int) -> None:
        self._client.set(f"{MEMBERS}/{self._id}", str(count).encode())

    def alive(self) -> None:
        self._client.exists(f"{MEMBERS}/{self._id}")

    def given(self) -> Epochs:
        try:
            entries = self._client.get_children(f"{GIVEN}/{self._id}", watch=self._woken)
        except NoNodeError:
            return {}
        reads = [self._client.get_async(f"{GIVEN}/{self._id}/{entry}") for entry in entries if entry not in self._read]
        self._read.update(entries)
        return {name: epoch for read in reads for name, epoch in json.loads(read.get()[0]).items()}

    def move(self, granules: Mapping[str, int], to: str) -> bool:
        multi = self._client.transaction()
        for name, epoch in granules.items():
            path = f"{GRANULES}/{name.replace('/', '-')}"
            if epoch == 0:
                multi.create(path, to.encode())
            else:
                multi.set_data(path, to.encode(), version=epoch - 1)
        after = json.dumps({name: epoch + 1 for name, epoch in granules.items()}).encode()
        multi.create(f"{GIVEN}/{to}/e-", after, sequence=True)
        return not any(isinstance(result, Exception) for result in multi.commit())

    def owned_by(self, id: str) -> Epochs:
        entries = self._client.get_children(f"{GIVEN}/{id}")
        reads = [self._client.get_async(f"{GIVEN}/{id}/{entry}") for entry in entries]
        names = sorted({name for read in reads for name in json.loads(read.get()[0])})
        rows = [(name, self._client.get_async(f"{GRANULES}/{name.replace('/', '-')}")) for name in names]
        owners = [(name, row.get()) for name, row in rows]
        return {name: stat.version + 1 for name, (owner, stat) in owners if owner.decode() == id}

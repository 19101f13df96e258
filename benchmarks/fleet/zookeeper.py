"""Members and granules in ZooKeeper, through kazoo: ephemeral nodes, a node for each granule,
multis."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.retry import KazooRetry

from benchmarks.fleet.coordinated import Epochs

MEMBERS = "/members"
GRANULES = "/granules"
GIVEN = "/given"


class ZooKeeper:
    """``coordinated.Service``. A node's version is its granule's epoch, less one."""

    def __init__(self, hosts: str, id: str, ttl_s: float) -> None:
        retry = KazooRetry(max_tries=-1, max_delay=0.1)  # a connection may be lost; what ends is the session
        self._client = KazooClient(hosts=hosts, timeout=ttl_s, command_retry=retry)
        self._id = id
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
        return set(self._client.retry(self._client.get_children, MEMBERS, watch=self._woken))

    def counts(self, ids: Iterable[str]) -> dict[str, int]:
        return {id: int(data) for id, (data, _) in self._get_all({id: f"{MEMBERS}/{id}" for id in ids}).items()}

    def _get_all(self, paths: Mapping[str, str]) -> dict[str, Any]:
        """Nodes, read at once; those that are gone are left out."""
        reads = {name: self._client.get_async(path) for name, path in paths.items()}
        nodes = {}
        for name, read in reads.items():
            try:
                nodes[name] = read.get()
            except ConnectionLoss:
                nodes[name] = self._client.retry(self._client.get, paths[name])
            except NoNodeError:
                continue
        return nodes

    def show(self, count: int) -> None:
        self._client.retry(self._client.set, f"{MEMBERS}/{self._id}", str(count).encode())

    def alive(self) -> None:
        self._client.retry(self._client.exists, f"{MEMBERS}/{self._id}")

    def given(self) -> Epochs:
        try:
            entries = self._client.retry(self._client.get_children, f"{GIVEN}/{self._id}", watch=self._woken)
        except NoNodeError:
            return {}
        nodes = self._get_all({entry: f"{GIVEN}/{self._id}/{entry}" for entry in entries if entry not in self._read})
        self._read.update(nodes)
        return {name: epoch for data, _ in nodes.values() for name, epoch in json.loads(data).items()}

    def move(self, granules: Mapping[str, int], to: str) -> bool:
        multi = self._client.transaction()
        for name, epoch in granules.items():
            path = self._path(name)
            if epoch == 0:
                multi.create(path, to.encode())
            else:
                multi.set_data(path, to.encode(), version=epoch - 1)
        after = json.dumps({name: epoch + 1 for name, epoch in granules.items()}).encode()
        multi.create(f"{GIVEN}/{to}/e-", after, sequence=True)
        try:
            return not any(isinstance(result, Exception) for result in multi.commit())
        except ConnectionLoss:
            name, epoch = next(iter(granules.items()))
            owner, stat = self._client.retry(self._client.get, self._path(name))
            return (owner.decode(), stat.version) == (to, epoch)

    def owned_by(self, id: str) -> Epochs:
        entries = self._client.retry(self._client.get_children, f"{GIVEN}/{id}")
        given = self._get_all({entry: f"{GIVEN}/{id}/{entry}" for entry in entries})
        names = {name for data, _ in given.values() for name in json.loads(data)}
        owners = self._get_all({name: self._path(name) for name in sorted(names)})
        return {name: stat.version + 1 for name, (owner, stat) in owners.items() if owner.decode() == id}

    def _path(self, name: str) -> str:
        return f"{GRANULES}/{name.replace('/', '-')}"

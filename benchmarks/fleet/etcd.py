"""Members and granules in etcd, through its JSON gateway: keys with a lease, a key for each
granule, transactions."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from benchmarks.fleet.coordinated import Epochs

MEMBERS = "members/"
GRANULES = "granules/"
GIVEN = "given/"
READ_AT_ONCE: Final = 100
"""Operations of a transaction, of which etcd takes 128."""

TIMEOUT_S: Final = 60.0


def _code(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(code: str) -> str:
    return base64.b64decode(code).decode()


def _prefix(key: str) -> dict[str, str]:
    return {"key": _code(key), "range_end": _code(key[:-1] + chr(ord(key[-1]) + 1))}


class Etcd:
    """``coordinated.Service``. A key's version is its granule's epoch. Every thread has a
    connection of its own."""

    def __init__(self, port: int, id: str, ttl_s: float) -> None:
        self._port = port
        self._id = id
        self._ttl_s = ttl_s
        self._local = threading.local()
        self.changed = threading.Event()
        self._mutex = threading.Lock()
        self._counts = dict[str, int]()
        self._given = Epochs()
        self._lease = ""
        self._watching = False

    def _send(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        connection.request("POST", f"/v3/{path}", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"etcd: {path}: {answer}")
        return answer

    def join(self) -> None:
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, args=(MEMBERS, self._saw_member), daemon=True).start()
            threading.Thread(target=self._watch, args=(f"{GIVEN}{self._id}/", self._saw_given), daemon=True).start()
            threading.Thread(target=self._keep_alive, daemon=True).start()
        self._lease = self._send("lease/grant", {"TTL": str(int(self._ttl_s))})["ID"]
        self.show(0)

    def leave(self) -> None:
        self._lease, lease = "", self._lease
        self._send("lease/revoke", {"ID": lease})

    def _keep_alive(self) -> None:
        """Three signs of life in the time of a lease, whatever else the member does."""
        while True:
            time.sleep(self._ttl_s / 3)
            if self._lease:
                with suppress(RuntimeError, OSError):
                    self.alive()

    def alive(self) -> None:
        answer = self._send("lease/keepalive", {"ID": self._lease})
        if "TTL" not in answer["result"]:
            raise RuntimeError("the lease has ended")

    def _watch(self, prefix: str, saw: Any) -> None:
        """What there is, and whatever changes from then on."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        now = self._send("kv/range", _prefix(prefix))
        for row in now.get("kvs", ()):
            saw("PUT", row)
        request = {"create_request": {**_prefix(prefix), "start_revision": str(int(now["header"]["revision"]) + 1)}}
        connection.request("POST", "/v3/watch", json.dumps(request), {"content-type": "application/json"})
        response = connection.getresponse()
        while line := response.readline():
            for event in json.loads(line)["result"].get("events", ()):
                saw(event.get("type", "PUT"), event["kv"])

    def _saw_member(self, kind: str, row: dict[str, str]) -> None:
        id = _text(row["key"]).removeprefix(MEMBERS)
        with self._mutex:
            before = self._counts.keys() | set()
            if kind == "DELETE":
                self._counts.pop(id, None)
            else:
                self._counts[id] = int(_text(row["value"]))
            is_other = self._counts.keys() != before
        if is_other:
            self.changed.set()

    def _saw_given(self, _: str, row: dict[str, str]) -> None:
        with self._mutex:
            self._given.update(json.loads(_text(row["value"])))
        self.changed.set()

    def members(self) -> set[str]:
        with self._mutex:
            return set(self._counts)

    def counts(self, ids: Iterable[str]) -> dict[str, int]:
        with self._mutex:
            return {id: self._counts[id] for id in ids if id in self._counts}

    def show(self, count: int) -> None:
        body = {"key": _code(MEMBERS + self._id), "value": _code(str(count)), "lease": self._lease}
        self._send("kv/put", body)

    def given(self) -> Epochs:
        with self._mutex:
            given = self._given
            self._given = {}
        return given

    def move(self, granules: Mapping[str, int], to: str) -> bool:
        keys = {name: _code(GRANULES + name) for name in granules}
        owner = _code(to)
        first = next(iter(granules.items()))
        entry = _code(f"{GIVEN}{to}/{first[0]}@{first[1]}")
        after = _code(json.dumps({name: epoch + 1 for name, epoch in granules.items()}))
        body = {
            "compare": [
                {"key": keys[name], "target": "VERSION", "result": "EQUAL", "version": str(epoch)}
                for name, epoch in granules.items()
            ],
            "success": [
                *({"request_put": {"key": key, "value": owner}} for key in keys.values()),
                {"request_put": {"key": entry, "value": after}},
            ],
        }
        return bool(self._send("kv/txn", body).get("succeeded"))

    def owned_by(self, id: str) -> Epochs:
        entries = self._send("kv/range", _prefix(f"{GIVEN}{id}/")).get("kvs", ())
        names = sorted({name for entry in entries for name in json.loads(_text(entry["value"]))})
        owned = Epochs()
        for start in range(0, len(names), READ_AT_ONCE):
            keys = [{"request_range": {"key": _code(GRANULES + name)}} for name in names[start : start + READ_AT_ONCE]]
            for answer in self._send("kv/txn", {"success": keys}).get("responses", ()):
                for row in answer["response_range"].get("kvs", ()):
                    if _text(row["value"]) == id:
                        owned[_text(row["key"]).removeprefix(GRANULES)] = int(row["version"])
        return owned

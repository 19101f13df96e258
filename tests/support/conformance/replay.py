"""Replays a recorded session against the real handlers and compares every answer member by
member."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import yaml

from tests.support.conformance import engine
from tests.support.fakes.storage import FakeClock
from tests.support.functions import Answer
from tests.support.unity import B, Unity
from turnstile.adapters.credentials import StaticCredentials, StaticCredentialVendor, VendorByLocation
from turnstile.delta.publish import Publisher

FOLDER = Path(__file__).parent / "recording"
FILE = ("file-name", "file-size", "file-modification-timestamp")
_NAME = re.compile(r"\{([^{}]+)\}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def sessions() -> list[str]:
    """The names of the recordings."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


class Replay:
    """One session. ``known`` holds the values of placeholders so far."""

    def __init__(self, name: str) -> None:
        self.script: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        keys = StaticCredentials("fakeAccessKey", "fakeSecretKey", "fakeSessionToken")
        root = "s3://fakebucket/root" if name == "keys" else "file:///data/lake"
        vendor = VendorByLocation(StaticCredentialVendor(keys, FakeClock()))
        self.unity = Unity(vendor, catalog=self.script["catalog"], schema="default", lake_root=root)
        self.known: dict[str, Any] = {}
        self.logs: dict[str, engine.Log] = {}
        self.last: dict[str, Any] = {}

    def run(self) -> list[str]:
        """Every difference, as ``number statement: path: difference``."""
        found = []
        statement = ""
        for number, exchange in enumerate(self.script["exchanges"], 1):
            statement = exchange.get("statement", statement)
            where = f"{number} {statement[:60]}: {exchange['method']} {exchange['path']}"
            answer = self.ask(exchange)
            if answer.status != exchange["status"]:
                found.append(f"{where}: {answer.status} {answer.text}")
            elif "answer" in exchange or "changes" in exchange:
                found += [f"{where}: {one}" for one in self.compare(self.expected(exchange), answer.json)]
        return found

    def ask(self, exchange: dict[str, Any]) -> Answer:
        """The exchange's request, with the files that the engine writes before it."""
        path, _, query = self.filled(exchange["path"]).partition("?")
        asked = copy.deepcopy(exchange.get("request"))
        if asked is not None:
            self.write(exchange["path"], asked)
            asked = self.filled(asked)
        return self.unity.call(exchange["method"], B + path, asked, query=query)

    # -- the engine's files -------------------------------------------------------------------------------------------

    def write(self, path: str, asked: dict[str, Any]) -> None:
        """The engine's writes before its request; times and sizes become known by it."""
        if "updates" in asked:
            table = path.rsplit("/", 1)[1]
            add, *others = asked["updates"]
            self.commit(table, add["commit"], others, "-")
        elif "commit_info" in asked:
            table = asked["table_id"].strip("{}").split(".")[0]
            others = [{"action": "set-columns", "columns": WIDER}] if "metadata" in asked else []
            self.commit(table, asked["commit_info"], others, "_")
        elif asked.get("table-type") == "MANAGED" or asked.get("table_type") == "MANAGED":
            name = asked["name"]
            ict = self.known[f"{name}.0.ict"] = self.unity.world.clock.now_ms()
            said = self.filled(asked)
            log = self.logs[name] = engine.created(said) if "location" in said else engine.created_old(said)
            self.unity.write(log.location, f"_delta_log/{0:020d}.json", log.zero(ict))

    def commit(self, table: str, said: dict[str, Any], others: Any, dash: str) -> None:
        """A staged file; everything before it is published, as the engine does after each
        commit."""
        Publisher(self.unity.world).publish(self.known[f"{table}.uuid"])
        log = self.logs[table]
        version = said["version"]
        ict = self.known[said["timestamp"].strip("{}")] = self.unity.world.clock.now_ms()
        actions = [action for other in self.filled(others) for action in log.change(other)]
        name, size, modified = (said[one.replace("-", dash)] for one in FILE)
        self.known[size.strip("{}")] = log.commit(self.unity, name, version, ict, actions)
        self.known[modified.strip("{}")] = ict + 1

    def filled(self, node: Any) -> Any:
        """``node`` with the values of its placeholders."""
        if isinstance(node, dict):
            return {key: self.filled(value) for key, value in node.items()}
        if isinstance(node, list):
            return [self.filled(one) for one in node]
        if isinstance(node, str):
            whole = _NAME.fullmatch(node)
            if whole and not whole[1].endswith("!s"):
                return self.value(whole[1])
            return _NAME.sub(lambda found: str(self.value(found[1].removesuffix("!s"))), node)
        return node

    def value(self, name: str) -> Any:
        """The value of a placeholder; the short form of a location is derived."""
        if name.endswith(".short"):
            return self.known[name.replace(".short", ".location")].replace("file:///", "file:/")
        return self.known[name]

    # -- answers ------------------------------------------------------------------------------------------------------

    def expected(self, exchange: dict[str, Any]) -> Any:
        """The recorded answer; loads of a table are kept as changes of the one before."""
        if "answer" not in exchange:
            table = exchange["path"].split("/tables/")[1].split("/")[0]
            self.last[table] = merged(self.last[table], exchange["changes"])
            return self.last[table]
        answer = exchange["answer"]
        if isinstance(answer, dict) and "metadata" in answer:
            name = (exchange.get("request") or {}).get("name") or exchange["path"].rsplit("/", 1)[1]
            self.last[name] = answer
        return answer

    def compare(self, recorded: Any, given: Any) -> list[str]:
        """Differences of two answers; names are bound as they appear."""
        return list(self._compare(deviating(recorded), given, "$"))

    def _compare(self, recorded: Any, given: Any, at: str) -> Any:
        if isinstance(recorded, dict) and isinstance(given, dict):
            for name in sorted({*recorded} ^ {*given}):
                yield f"{at}.{name}: {'missing' if name in recorded else f'not recorded: {given[name]!r}'}"
            for name in recorded.keys() & given.keys():
                yield from self._compare(recorded[name], given[name], f"{at}.{name}")
        elif isinstance(recorded, list) and isinstance(given, list) and len(recorded) == len(given):
            for number, (one, other) in enumerate(zip(recorded, given, strict=True)):
                yield from self._compare(one, other, f"{at}[{number}]")
        elif not self.fits(recorded, given):
            yield f"{at}: {given!r} and not {recorded!r}"

    def fits(self, recorded: Any, given: Any) -> bool:
        """Whether a value is the recorded one, or one that the placeholder may stand for."""
        whole = _NAME.fullmatch(recorded) if isinstance(recorded, str) else None
        if whole is None:
            return bool(type(recorded) is type(given) and recorded == given)
        name = whole[1]
        if name == "time":
            return type(given) is int and given > 1_000_000_000_000
        if name == "text":
            return isinstance(given, str) and bool(given)
        if name.removesuffix("!s") in self.known:
            value = self.known[name.removesuffix("!s")]
            return bool(given == (str(value) if name.endswith("!s") else value))
        form = _UUID.fullmatch(given) if name.endswith(".uuid") else isinstance(given, str) and given
        if not form or given in self.known.values():
            return False
        self.known[name] = given
        return True


WIDER = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "x", "type": "integer", "nullable": True, "metadata": {}},
    ],
}
"""The effect of `ADD COLUMN x INT` on the recorded table; the older API's request does not contain
it."""


def merged(document: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396) applied."""
    if not isinstance(patch, dict):
        return patch
    made = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


def deviating(recorded: Any) -> Any:
    """The recorded answer with the deviations that docs/compatibility.md lists, and no others."""
    if recorded == "200 OK":
        return {}  # an object, as the specification has it
    if not isinstance(recorded, dict):
        return recorded
    made = copy.deepcopy(recorded)
    if "error" in made:
        made["error"].pop("stack")
    if made.get("metadata", {}).get("table-type") == "MANAGED":
        made["allowed-maintenance-operations"] = ["DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"]
    if "storage-credentials" in made:
        made["storage-credentials"] = [one for one in made["storage-credentials"] if one["config"]]
        for one in made["storage-credentials"]:
            one["expiration-time-ms"] = "{time}"
    if made.get("aws_temp_credentials"):
        made["expiration_time"] = "{time}"
    return made

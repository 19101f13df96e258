"""An engine's part of a recorded session: the files it writes before its requests, derived from the
requests."""

from __future__ import annotations

import json
from typing import Any

from tests.support.fakes import delta
from tests.support.unity import Unity

_READER_TOO = {"catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping"}
_DERIVED = ("delta.feature.", "delta.min", "delta.lastUpdateVersion", "delta.lastCommitTimestamp")


class Log:
    """The log of one table; actions for the next commit come from the changes a request names."""

    def __init__(self, location: str, protocol: dict[str, Any], metadata: dict[str, Any], domains: Any = None) -> None:
        self.location = location
        self.protocol = protocol
        self.metadata = metadata
        self._domains = domains or {}

    def zero(self, ict: int) -> bytes:
        """Version 0."""
        return delta.lines(
            delta.info("create", ict, "CREATE TABLE"),
            {"protocol": self.protocol},
            {"metaData": self.metadata},
            *_domains(self._domains),
        )

    def change(self, said: dict[str, Any]) -> list[dict[str, Any]]:
        """The actions of one update of the Delta API; the metadata is remembered."""
        before = json.dumps(self.metadata)
        match said["action"]:
            case "set-columns":
                self.metadata["schemaString"] = json.dumps(said["columns"])
            case "set-properties":
                self.metadata["configuration"] |= said["updates"]
            case "remove-properties":
                for key in said["removals"]:
                    self.metadata["configuration"].pop(key, None)
            case "set-table-comment":
                self.metadata["description"] = said["comment"]
            case "set-protocol":
                self.protocol = protocol(said["protocol"])
                return [{"protocol": self.protocol}]
            case "set-domain-metadata":
                return _domains(said["updates"])
        return [{"metaData": self.metadata}] if json.dumps(self.metadata) != before else []

    def commit(self, unity: Unity, name: str, version: int, ict: int, actions: list[dict[str, Any]]) -> int:
        """Write a staged file; its size."""
        last = {next(iter(action)): action for action in actions if "domainMetadata" not in action}
        domains = [action for action in actions if "domainMetadata" in action]
        tracked = "rowTracking" in self.protocol["writerFeatures"]
        ids = {"baseRowId": version, "defaultRowCommitVersion": version} if tracked else {}
        columns = json.loads(self.metadata["schemaString"])["fields"]
        names = {one["name"]: one["metadata"].get("delta.columnMapping.physicalName", one["name"]) for one in columns}
        values = {names[column]: None for column in self.metadata["partitionColumns"]}
        add = delta.add(f"{name}.parquet", partitionValues=values, **ids)
        content = delta.lines(delta.info(name, ict), *last.values(), *domains, add)
        unity.write(self.location, f"_delta_log/_staged_commits/{name}", content)
        return len(content)


def protocol(said: dict[str, Any]) -> dict[str, Any]:
    """A protocol of the API as an action."""
    return {
        "minReaderVersion": said["min-reader-version"],
        "minWriterVersion": said["min-writer-version"],
        "readerFeatures": said["reader-features"],
        "writerFeatures": said["writer-features"],
    }


def created(said: dict[str, Any]) -> Log:
    """The log of a table that the Delta API is asked to create."""
    made = _metadata(said["columns"], said["partition-columns"], said["properties"], said.get("comment"))
    return Log(said["location"], protocol(said["protocol"]), made, said.get("domain-metadata"))


def created_old(said: dict[str, Any]) -> Log:
    """The log of a managed table that the older API is asked to create."""
    features = [key.split(".", 2)[2] for key in said["properties"] if key.startswith("delta.feature.")]
    action = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [one for one in features if one in _READER_TOO],
        "writerFeatures": features,
    }
    columns = {"type": "struct", "fields": [json.loads(column["type_json"]) for column in said["columns"]]}
    own = {key: value for key, value in said["properties"].items() if not key.startswith(_DERIVED)}
    return Log(said["storage_location"].replace("file:/", "file:///"), action, _metadata(columns, [], own, None))


def _metadata(columns: Any, partitions: list[str], configuration: dict[str, str], comment: str | None) -> Any:
    made = delta.metadata()["metaData"]
    made |= {"schemaString": json.dumps(columns), "partitionColumns": partitions, "configuration": dict(configuration)}
    return made | {"description": comment} if comment else made


def _domains(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"domainMetadata": {"domain": name, "configuration": json.dumps(value), "removed": False}}
        for name, value in said.items()
    ]

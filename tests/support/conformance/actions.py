"""The eleven actions of an update: the line of the commit's file for each, its visible effect, and
short words for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.support.functions import Answer
from tests.support.unity import COLUMNS, SCHEMA, Unity, api_protocol, external_protocol, metadata, protocol

INVALID = "InvalidParameterValueException"
CONFLICT = "CommitVersionConflictException"
REQUIREMENT = "UpdateRequirementConflictException"
WIDER: dict[str, Any] = {
    "type": "struct",
    "fields": [*COLUMNS["fields"], {"name": "extra", "type": "integer", "nullable": True, "metadata": {}}],
}


def properties(answer: Answer) -> dict[str, str]:
    assert answer.status == 200, answer.text
    return dict(answer.json["metadata"]["properties"])


def etag(answer: Answer) -> str:
    assert answer.status == 200, answer.text
    return str(answer.json["metadata"]["etag"])


def sets(**values: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": values}


def config(unity: Unity, **more: str) -> dict[str, str]:
    return {"io.unitycatalog.tableId": unity.uuid, **more}


def domain(name: str, configuration: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


PARTED: dict[str, Any] = {
    "type": "struct",
    "fields": [*COLUMNS["fields"], {"name": "p", "type": "string", "nullable": True, "metadata": {}}],
}
"""The columns of the tables that actions are tried on."""

ACTIONS_WIDER: dict[str, Any] = {
    "type": "struct",
    "fields": [*PARTED["fields"], {"name": "extra", "type": "integer", "nullable": True, "metadata": {}}],
}
FEATURES = ("clustering", "domainMetadata", "rowTracking")
MORE = (*FEATURES, "checkConstraints")


class Sample(msgspec.Struct, frozen=True):
    """One action.

    ``said`` the action without its name; ``logged`` members of the metaData action that go with it,
    ``actions`` further actions of the file; ``seen`` whether a load of the table shows it;
    ``alone`` whether the catalog takes it without a commit, ``external`` for an external table.
    """

    said: dict[str, Any]
    seen: Callable[[dict[str, Any]], Any]
    logged: dict[str, Any] = {}
    actions: tuple[dict[str, Any], ...] = ()
    alone: bool = False
    external: bool = True


def _properties(loaded: dict[str, Any]) -> dict[str, str]:
    return dict(loaded["metadata"]["properties"])


def _domain(name: str, configuration: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


SAMPLES: dict[str, Sample] = {
    "set-properties": Sample(
        {"updates": {"mine": "1", "other": "2"}},
        lambda loaded: _properties(loaded).get("mine") == "1" and _properties(loaded)["other"] == "2",
        {"configuration": {"mine": "1"}},
        alone=True,
    ),
    "remove-properties": Sample(
        {"removals": ["gone", "never"]}, lambda loaded: "gone" not in _properties(loaded), alone=True
    ),
    "set-columns": Sample(
        {"columns": ACTIONS_WIDER},
        lambda loaded: loaded["metadata"]["columns"] == ACTIONS_WIDER,
        {"columns": ACTIONS_WIDER},
    ),
    "set-partition-columns": Sample(
        {"partition-columns": ["p"]},
        lambda loaded: loaded["metadata"]["partition-columns"] == ["p"],
        {"partitions": ["p"]},
    ),
    "set-table-comment": Sample({"comment": "said"}, lambda loaded: True, {"description": "said"}, alone=True),
    "set-protocol": Sample(
        {"protocol": api_protocol(*MORE)},
        lambda loaded: _properties(loaded).get("delta.feature.checkConstraints") == "supported",
        actions=(protocol(*MORE),),
    ),
    "set-domain-metadata": Sample(
        {"updates": {"delta.rowTracking": {"rowIdHighWaterMark": 7}}},
        lambda loaded: _properties(loaded)["delta.rowTracking.rowIdHighWaterMark"] == "7",
        actions=(_domain("delta.rowTracking", '{"rowIdHighWaterMark":7}'),),
    ),
    "remove-domain-metadata": Sample(
        {"domains": ["delta.clustering"]},
        lambda loaded: "clusteringColumns" not in _properties(loaded),
        actions=(_domain("delta.clustering", "", removed=True),),
    ),
    "set-latest-backfilled-version": Sample(
        {"latest-published-version": 1}, lambda loaded: True, alone=True, external=False
    ),
    "update-metadata-snapshot-version": Sample(
        {"last-commit-version": 4, "last-commit-timestamp-ms": 9},
        lambda loaded: loaded["metadata"]["last-commit-version"] == 4,
    ),
    "add-commit": Sample(
        {
            "commit": {
                "version": 2,
                "timestamp": 1,
                "file-name": "x.json",
                "file-size": 1,
                "file-modification-timestamp": 1,
            }
        },
        lambda loaded: True,
        external=False,
    ),
}
WITH_A_COMMIT = sorted({*SAMPLES} - {"update-metadata-snapshot-version", "add-commit"})
"""Actions that may ride with a commit of a managed table."""


def action(name: str) -> dict[str, Any]:
    """The action as it is sent."""
    return {"action": name, **SAMPLES[name].said}


def external_action(name: str) -> dict[str, Any]:
    """The action as it is sent of an external table."""
    sent = action(name)
    return sent | {"protocol": external_protocol(*MORE)} if name == "set-protocol" else sent


def managed() -> Unity:
    """A managed table with two columns, clustering, row tracking, a property ``gone``, and one
    commit."""
    unity = Unity()
    staged = unity.stage()
    begin = (metadata(PARTED, **{"io.unitycatalog.tableId": staged["table-id"], "gone": "1"}),
             _domain("delta.clustering", '{"clusteringColumns":[["id"]]}'))  # fmt: skip
    unity.write_zero(staged, *FEATURES, instead=begin)
    body = unity.create_body(staged, "t1", *FEATURES, gone="1") | {"columns": PARTED}
    clustering = {"delta.clustering": {"clusteringColumns": [["id"]]}}
    answer = unity.post(f"{SCHEMA}/tables", body | {"domain-metadata": clustering})
    assert answer.status == 200, answer.text
    assert unity.update(unity.commit(1)).status == 200
    return unity


def proposed(unity: Unity, names: list[str]) -> dict[str, Any]:
    """The ``add-commit`` whose file has these actions; ``gone`` is in the log until it is
    removed."""
    config = {"io.unitycatalog.tableId": unity.uuid} | ({} if "remove-properties" in names else {"gone": "1"})
    columns = PARTED
    partitions = []
    description = None
    further = []
    changed = False
    for name in names:
        sample = SAMPLES[name]
        changed = changed or bool(sample.logged) or name == "remove-properties"
        config |= sample.logged.get("configuration", {})
        columns = sample.logged.get("columns", columns)
        partitions = sample.logged.get("partitions", partitions)
        description = sample.logged.get("description", description)
        further += sample.actions
    first = [metadata(columns, partitions, description, **config)] if changed else []
    return unity.commit(2, *further, *first)


def send(unity: Unity, names: list[str], *, etag: str | None = None) -> Answer:
    """One update with these actions, in this order, and the commit they belong to."""
    return unity.update(*(action(name) for name in names), proposed(unity, names), etag=etag)

"""Short words that tests of updates use."""

from __future__ import annotations

from typing import Any

from tests.support.http import Answer
from tests.support.unity import COLUMNS, Unity

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

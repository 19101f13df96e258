"""Requests generated from openapi/unity.yaml by schemathesis, and a catalog for them to hit."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.generation import GenerationMode

from tests.support.conformance.drive import GOOD, send
from tests.support.functions import Answer
from tests.support.openapi import UNITY
from tests.support.unity import B, Unity

GENERATED = {
    operation.definition.raw["operationId"]: operation
    for operation in (found.ok() for found in schemathesis.openapi.from_dict(UNITY.raw).get_all_operations())
}
MODES = st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
TALLY: Counter[str] = Counter()
"""How many generated requests got which status, in this process."""

_CASES: dict[tuple[str, GenerationMode], Any] = {}


def cases(id: str, mode: GenerationMode) -> Any:
    """Requests of operation ``id`` that fit the document, or do not."""
    if (id, mode) not in _CASES:
        _CASES[id, mode] = GENERATED[id].as_strategy(generation_mode=mode)
    return _CASES[id, mode]


def aimed(node: Any, unity: Unity) -> Any:
    """``node`` with names and uuids of existing entities, so that generated bodies get past the
    first check."""
    known = {
        "uuid": unity.uuid, "table-id": unity.uuid, "table_id": unity.uuid, "table_uri": unity.head().location,
        "catalog": "main", "catalog_name": "main", "schema_name": "sales", "protocol-versions": "1.0",
    }  # fmt: skip
    if isinstance(node, list):
        return [aimed(one, unity) for one in node]
    if isinstance(node, dict):
        return {key: known.get(key) or aimed(value, unity) for key, value in node.items()}
    return node


def exists(unity: Unity) -> bool:
    """Whether the table that requests are aimed at is still there."""
    return unity.get(f"{B}/tables/main.sales.t1").status == 200


def send_generated(unity: Unity, id: str, case: Any, *, aim: bool) -> Answer:
    """Sends a generated request; ``aim``: at existing entities. The document checks the answer on
    its way."""
    one = UNITY.operations[id]
    body = case.body
    query = dict(case.query or {})
    aim = aim and exists(unity)
    ask = GOOD[id](unity) if aim else None
    if aim:
        body = aimed(body, unity)
        query = aimed(query, unity)
    options: dict[str, Any] = {"query": {name: _text(value) for name, value in query.items()}}
    if isinstance(body, bytes):
        options |= {"body": base64.b64encode(body).decode(), "base64_encoded": True}
    elif not isinstance(body, NotSet):
        options["body"] = json.dumps(body)
    answer = unity.call(one.method, ask.path if ask else case.formatted_path, **options)
    TALLY[f"{answer.status}"] += 1
    return answer


def send_mixed(unity: Unity, id: str, case: Any, members: set[str]) -> Answer:
    """The request that succeeds, with some members of its body from a generated one."""
    ask = GOOD[id](unity)
    given = case.body if isinstance(case.body, dict) else {}
    body = {name: given[name] if name in members and name in given else value for name, value in ask.body.items()}
    answer = send(unity, id, type(ask)(ask.path, body, ask.query))
    TALLY[f"{answer.status}"] += 1
    return answer


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

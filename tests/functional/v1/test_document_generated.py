"""Requests generated from openapi/v1.yaml, fitting and not, against both handlers: never a 500,
always as described."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.generation import GenerationMode

from tests.support.examples import examples
from tests.support.functions import event
from tests.support.openapi import check, document, operations
from tests.support.v1 import Site
from turnstile.api.http.responses import JSON

ROWS = ("appendRows", "appendRowsByName")
"""Operations that take other bodies than JSON, too."""

QUIET = settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))

GENERATED = {
    operation.definition.raw["operationId"]: operation
    for operation in (found.ok() for found in schemathesis.openapi.from_dict(document()).get_all_operations())
}


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def send(site: Site, id: str, case: Any, *, real: bool) -> None:
    """Send a generated case, with the names of the table that exists if ``real``."""
    one = operations()[id]
    path = site.path(one) if real else case.formatted_path
    query = {name: text_of(value) for name, value in (case.query or {}).items()}
    raw = None
    binary = isinstance(case.body, bytes)
    headers = {"Content-Type": case.media_type} if one.id in ROWS and case.media_type else {}
    if isinstance(case.body, bytes):
        raw = base64.b64encode(case.body).decode()
    elif isinstance(case.body, str) and headers.get("Content-Type", JSON) != JSON:
        raw = case.body
    elif not isinstance(case.body, NotSet):
        raw = json.dumps(case.body)
    made = event(one.method, path, query=query, body=raw, headers=headers, base64_encoded=binary)
    answer = site.http[one.function].send(made)
    assert answer.status != 500, (one.method, path, query, raw, answer.text)
    if answer.status == 404 and "NoSuchRoute" in answer.text:
        return  # a generated name held a slash or was empty
    check(one, answer)


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(GENERATED))
@QUIET
@given(data=st.data())
def test_generated_requests_are_answered_as_described(id: str, data: st.DataObject) -> None:
    site = Site()
    for _ in range(3):
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(GENERATED[id].as_strategy(generation_mode=mode))
        send(site, id, case, real=data.draw(st.booleans()))

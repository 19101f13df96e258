"""Generated requests, fitting and not, alone and in sequences: never a 500, never an answer that is
not described."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.conformance.drive import GOOD, stocked
from tests.support.conformance.fuzz import GENERATED, MODES, cases, send_generated, send_mixed
from tests.support.examples import examples
from tests.support.functions import Answer
from tests.support.unity import Unity

IDS = sorted(GENERATED)
WITH_BODY = [id for id in IDS if GENERATED[id].body]
QUICK = settings(max_examples=examples(5), derandomize=True, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=examples(50), suppress_health_check=list(HealthCheck))


def ours(answer: Answer) -> None:
    assert answer.status < 500 or answer.status == 501, answer.text


def alone(id: str, data: st.DataObject) -> None:
    case = data.draw(cases(id, data.draw(MODES)))
    ours(send_generated(stocked(), id, case, aim=data.draw(st.booleans())))


def mixed(id: str, data: st.DataObject) -> None:
    unity = stocked()
    body = GOOD[id](unity).body or {"table_id": None}
    members = data.draw(st.sets(st.sampled_from(sorted(body)), min_size=1))
    ours(send_mixed(unity, id, data.draw(cases(id, data.draw(MODES))), members))


def sequence(unity: Unity, data: st.DataObject, length: int) -> None:
    for _ in range(length):
        id = data.draw(st.sampled_from(IDS))
        ours(send_generated(unity, id, data.draw(cases(id, data.draw(MODES))), aim=data.draw(st.booleans())))


@pytest.mark.parametrize("id", IDS)
@QUICK
@given(data=st.data())
def test_a_generated_request_is_answered_as_described(id: str, data: Any) -> None:
    alone(id, data)


@pytest.mark.parametrize("id", WITH_BODY)
@QUICK
@given(data=st.data())
def test_a_good_request_with_generated_members_is_answered_as_described(id: str, data: Any) -> None:
    mixed(id, data)


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
@LONG
@given(data=st.data())
def test_many_generated_requests_are_answered_as_described(id: str, data: Any) -> None:
    alone(id, data)
    if id in WITH_BODY:
        mixed(id, data)


@pytest.mark.slow
@LONG
@given(data=st.data())
def test_sequences_of_generated_requests_are_answered_as_described(data: Any) -> None:
    sequence(stocked(), data, 15)

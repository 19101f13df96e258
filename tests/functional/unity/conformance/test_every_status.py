"""Every operation gives every answer that openapi/unity.yaml describes, and each looks as
described."""

from __future__ import annotations

import pytest

from tests.support.conformance.cases import covers, documented
from tests.support.conformance.drive import driver, failing, stocked
from tests.support.openapi import UNITY

PAIRS = [
    pytest.param(id, status, marks=covers(**{id: status}), id=f"{id} {status}") for id, status in sorted(documented())
]


@pytest.mark.parametrize(("id", "status"), PAIRS)
def test_every_answer_that_is_described_is_given(id: str, status: int) -> None:
    answer = driver(id, status)(stocked(), id)
    assert answer.status == status, answer.text


@pytest.mark.parametrize("id", sorted(id for id, status in documented() if status == 500))
def test_a_defect_says_nothing_of_the_inside(id: str) -> None:
    answer = failing(RuntimeError("secret of the inside"))(stocked(), id)
    assert answer.status == 500 and "secret" not in answer.text
    assert UNITY.operations[id].method == "HEAD" or "correlation id" in answer.text

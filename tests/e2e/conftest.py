"""What the tests of the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turnstile_local import Stack


@pytest.fixture(params=["stack", pytest.param("s3_stack", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest) -> Stack:
    return request.getfixturevalue(request.param)

"""Fixtures of the tests of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turnstile_server import Server


@pytest.fixture(params=["server", pytest.param("server_on_s3", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)

"""Fixtures of the tests of rights."""

from __future__ import annotations

import pytest

from tests.support.access.realm import Realm


@pytest.fixture
def realm() -> Realm:
    """Users and a table; no user but the admin has any right."""
    return Realm()

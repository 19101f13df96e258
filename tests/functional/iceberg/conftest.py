"""Fixtures of the tests of the Iceberg API."""

from __future__ import annotations

import pytest

from tests.support.iceberg.realm import Realm


@pytest.fixture
def realm() -> Realm:
    """Users and tables; no user but the admin has any right."""
    return Realm()

"""A plugin of pytest for Sail's own tests: fixtures that would start containers have the values
that the environment gives.

The tests are Sail's, as its wheel has them; the fixtures name the server's address and its storage.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FIXTURES = "TURNSTILE_SAIL_FIXTURES"
"""The variable with the values by name of fixture, in JSON."""

VALUES: dict[str, Any] = json.loads(os.environ.get(FIXTURES, "{}"))
PATHS = ("unity_storage_root",)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> Any:
    """Returns the value of a fixture that the environment names; None leaves it to pytest."""
    name = fixturedef.argname
    if name not in VALUES:
        return None
    value = Path(VALUES[name]) if name in PATHS else VALUES[name]
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value

"""The embedded stack as fixtures, started once per pytest session (and xdist worker) and only if a test asks.

A test that uses ``stack`` or ``s3_stack`` is marked ``stack`` by that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turnstile_local import Stack

STACKS = ("stack", "s3_stack")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in getattr(item, "fixturenames", ()) for name in STACKS):
            item.add_marker(pytest.mark.stack)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with its tables in files below its home: ``url``, ``client()``, ``env``, ``aws(service)``, ..."""
    from turnstile_local import Stack

    with Stack.start(tmp_path_factory.mktemp("stack"), port=0) as running:
        yield running


@pytest.fixture(scope="session")
def s3_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The same with its tables in the emulated S3, below ``s3://lake/warehouse``, and functions held to their roles."""
    from turnstile_local import Stack

    home = tmp_path_factory.mktemp("s3-stack")
    parameters = {"ImportRoot": "s3://lake/legacy"}
    with Stack.start(home, port=0, lake="s3://lake/warehouse", parameters=parameters, roles=True) as running:
        yield running

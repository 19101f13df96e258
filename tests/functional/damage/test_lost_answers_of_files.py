"""A store loses the first answer to each creation of a file, and answers the next attempt that the
file exists: the same files come to be, and lead to each other as ever (I4, I15)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.damage.tables import Case, checkpointed, cleaned, imported, indexed, partitioned, v2
from turnstile.adapters.files import FileStorage
from turnstile.delta.core.pointer import POINTER, pointed_version
from turnstile.delta.verify import Verifier
from turnstile.planning.planner import Planner

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def kinds(case: Case) -> Counter[str]:
    """How many files of each name there are below a table; identifiers are left out."""
    return Counter(_UUID.sub("uuid", str(path.relative_to(case.below))) for path in case.files())


def pointer(case: Case) -> int | None:
    """The version to which ``_last_checkpoint`` leads."""
    path = case.below / POINTER
    return pointed_version(path.read_bytes()) if path.exists() else None


@pytest.fixture
def lose_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    put = FileStorage.put_if_absent

    def lost(self: FileStorage, path: str, content: Any) -> bool:
        put(self, path, content)
        return False

    return lambda: monkeypatch.setattr(FileStorage, "put_if_absent", lost)


@pytest.mark.parametrize(
    "make", [partitioned, checkpointed, indexed, v2, imported, cleaned], ids=lambda one: one.__name__
)
def test_i4_i15_the_same_files_come_to_be_and_lead_to_each_other(
    make: Callable[[Path], Case], tmp_path: Path, lose_answers: Callable[[], None]
) -> None:
    expected = make(tmp_path / "answered")
    lose_answers()
    case = make(tmp_path / "lost")
    assert kinds(case) == kinds(expected)
    assert pointer(case) == pointer(expected)
    plan = Planner(case.world).plan(case.head)
    assert {file.path for file in plan.files} == case.truth[case.head.latest]
    assert not Verifier(case.world, case.services.limits).verify(case.table_id).deviations

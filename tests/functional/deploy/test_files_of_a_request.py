"""How many of our files a warm request passes through: a reader of one has to open that many.

The bounds are the present numbers; a change that needs more has split a thought that was one piece.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.support.conformance.drive import GOOD, stocked
from tests.support.functions import Answer, event
from tests.support.iceberg.client import T1 as ICEBERG_T1
from tests.support.iceberg.client import Iceberg, set_properties
from tests.support.lake import make_lake
from tests.support.repository import ROOT
from tests.support.unity import T1

OURS = (str(ROOT / "layers"), str(ROOT / "functions"))
STORE_OF_THE_TEST = "layers/turnstile/store/core/evaluate.py"
"""Files of the store in memory that do the work of DynamoDB's evaluation."""


def files_of(request: Callable[[], Answer]) -> set[str]:
    """The files of ours in which a function is called while ``request`` is answered; it has to
    succeed."""
    files: set[str] = set()

    def profile(frame: FrameType, what: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if what == "call" and file.startswith(OURS):
            files.add(file.removeprefix(f"{ROOT}/"))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        answer = request()
    finally:
        sys.setprofile(before)
    assert answer.status < 300, answer.text
    return files - {STORE_OF_THE_TEST}


def test_a_commit() -> None:
    lake = make_lake()
    assert [lake.append(version, f"t{version}").status for version in (1, 2)] == [200, 200]
    files = files_of(lambda: lake.append(3, "t3"))
    assert len(files) <= 21, "\n".join(sorted(files))


def test_an_update_by_unitys_api() -> None:
    unity = stocked()
    assert unity.update(unity.commit(2)).status == 200
    required = [{"type": "assert-table-uuid", "uuid": unity.uuid}]
    made = event("POST", T1, json_body={"requirements": required, "updates": [unity.commit(3)]})
    files = files_of(lambda: unity.hot.send(made))
    assert len(files) <= 39, "\n".join(sorted(files))


def test_a_commit_by_icebergs_api() -> None:
    client = Iceberg()
    client.create()
    assert [client.commit(set_properties(a=value)).status for value in "12"] == [200, 200]
    made = event("POST", ICEBERG_T1, json_body={"requirements": [], "updates": [set_properties(a="3")]})
    files = files_of(lambda: client.http.send(made))
    assert len(files) <= 47, "\n".join(sorted(files))


def test_a_new_table_by_unitys_api() -> None:
    unity = stocked()
    request = GOOD["createTable"](unity)
    made = event("POST", request.path, json_body=request.body)
    files = files_of(lambda: unity.cold.send(made))
    assert len(files) <= 56, "\n".join(sorted(files))

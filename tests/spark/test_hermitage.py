"""Hermitage in Spark: which anomalies transactions of a lake allow at each level, and plain Delta
beside them (I8).

Every case over several tables, and those of one table that the levels tell apart;
``python -m benchmarks.hermitage`` runs all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.hermitage.cases import BY_NAME, FORMS, Form
from benchmarks.hermitage.over_spark import DeltaSystem, LakeSystem
from benchmarks.hermitage.page import EXPECTED
from benchmarks.hermitage.running import run

#: Of the form with one table, and of plain Delta.
SOME = ("G1c", "P4", "G2-item")


CASES = [
    (level, form, case)
    for level in ("snapshot", "serializable")
    for form in FORMS
    for case in (BY_NAME if form == "multi" else SOME)
]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "form", "case"), CASES)
def test_i8_a_lake_allows_what_its_level_allows_and_nothing_else(
    lake: Any, spark: Any, level: str, form: Form, case: str
) -> None:
    verdict = run(BY_NAME[case], form, LakeSystem(lake, spark, level))
    assert verdict.text == EXPECTED[f"spark-{level}", form, case], verdict
    assert len(verdict.refused) <= 1, verdict  # the other one wins


@pytest.mark.slow
@pytest.mark.parametrize("level", ["snapshot", "serializable"])
@pytest.mark.parametrize("case", ["G-single", "PMP"])
def test_i8_a_reader_is_refused_when_a_table_that_it_did_not_name_cannot_join_its_cut(
    lake: Any, spark: Any, level: str, case: str
) -> None:
    verdict = run(BY_NAME[case], "multi", LakeSystem(lake, spark, level, names_tables=False))
    assert (verdict.text, verdict.refused) == ("refused", ("T1",)), verdict


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", SOME)
def test_plain_delta_allows_all_since_nothing_holds_its_statements_together(
    spark: Any, tmp_path: Path, form: Form, case: str
) -> None:
    verdict = run(BY_NAME[case], form, DeltaSystem(spark, str(tmp_path)))
    assert verdict.text == EXPECTED["delta", form, case], verdict

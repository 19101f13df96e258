"""Every statement of Spark's and Delta's grammars, on tables of a lake and on plain Delta tables:
the lists in docs/statements.md.

``TURNSTILE_WRITE=1`` writes the lists anew.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark.grammar_statements import SETUP, STATEMENTS
from tests.support.repository import ROOT
from turnstile_spark import TurnstileError

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "statements.md"
BEGIN = "<!-- made by tests/spark/test_grammar.py -->"
END = "<!-- end -->"
#: Plans of tables with a handful of rows.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
DEFAULTS = "spark.databricks.delta.properties.defaults."
#: What a lake's tables have.
FEATURES = {
    "enableDeletionVectors": "true",
    "enableInCommitTimestamps": "true",
    "feature.vacuumProtocolCheck": "supported",
}
_CONDITION = re.compile(r"\[([A-Z][A-Z_0-9.]{5,})\]")


class Failure:
    """An error: its name, and its first line."""

    def __init__(self, error: Exception) -> None:
        text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error).strip()
        self.first = text.splitlines()[0]
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        found = _CONDITION.search(text)
        self.name = condition or (found[1] if found else type(error).__name__)
        own = isinstance(error, TurnstileError) or (condition is None and found is None)
        self.remedy = own and isinstance(error, PySparkException)


def run(spark: Any, here: str, path: Path, schema: str) -> dict[str, Any]:
    """What became of each statement: a ``Failure``, or None."""
    spark.sql(f"CREATE SCHEMA {here}")
    spark.sql(f"USE {here}")
    path.mkdir()
    for statement in SETUP:
        spark.sql(statement)
    outcomes: dict[str, Any] = {}
    for subject, statements in STATEMENTS.items():
        for at, statement in enumerate(statements):
            try:
                spark.sql(statement.format(path=path, schema=schema)).collect()
                outcomes[f"{subject} {at}"] = None
            except Exception as error:
                outcomes[f"{subject} {at}"] = Failure(error)
    return outcomes


ALIKE = "refused alike"
"""The cell of a statement that a lake and plain Delta refuse with one condition."""


def result(plain: Failure | None, lake: Failure | None) -> str:
    """The cell of a statement."""
    if lake is None:
        return "works" if plain is None else f"works; plain Delta: `{plain.name}`"
    if plain is not None and lake.name == plain.name:
        return ALIKE
    if lake.remedy:
        text = re.sub(r"^\[TURNSTILE_[A-Z_]+\] ", "", lake.first)
        return text.partition(": ")[2].replace("|", "\\|")
    beside = "works" if plain is None else f"`{plain.name}`"
    return f"**differs**: `{lake.name}`; plain Delta: {beside}"


def rendered(results: dict[str, str]) -> str:
    """The lists of the page: for each subject the statements that work, that plain Delta refuses as
    well, and the others."""
    lines = []
    for subject, statements in STATEMENTS.items():
        shown = [(statement, results[f"{subject} {at}"]) for at, statement in enumerate(statements)]
        lines += [f"## {subject}", "", "```sql", *(one for one, cell in shown if cell == "works"), "```", ""]
        alike = [one for one, cell in shown if cell == ALIKE]
        if alike:
            lines += ["Refused, as by plain Delta:", "", "```sql", *alike, "```", ""]
        others = [(one, cell) for one, cell in shown if cell not in ("works", ALIKE)]
        if others:
            lines += ["| refused | remedy |", "| --- | --- |"]
            for statement, cell in others:
                code = f"`` {statement} ``" if "`" in statement else f"`{statement}`"
                lines.append(f"| {code} | {cell} |")
            lines.append("")
    return "\n".join(lines).strip()


def test_each_statement_works_or_says_what_to_do_and_the_page_has_them_all(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    sides = []
    for catalog, defaults in (("spark_catalog", FEATURES), (lake.name, {})):
        session = spark.newSession()
        for key, value in {**QUICK, **{DEFAULTS + key: value for key, value in defaults.items()}}.items():
            session.conf.set(key, value)
        sides.append((session, f"{catalog}.grammar", tmp_path / catalog, "grammar"))
    with ThreadPoolExecutor() as threads:
        plain, ours = threads.map(lambda side: run(*side), sides)
    made = rendered({key: result(plain[key], ours[key]) for key in ours})
    made = made.replace(str(tmp_path / lake.name), "{path}").replace("lake.grammar.", "")
    head, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, tail = rest.partition(END)
    if os.environ.get("TURNSTILE_WRITE"):
        PAGE.write_text(f"{head}{BEGIN}\n\n{made}\n\n{END}{tail}")
    else:
        assert made == written.strip()
    assert len(ours) >= 129

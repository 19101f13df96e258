"""What is expected of every system, and the tables of docs/isolation.md. Pure but for :func:`write`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.hermitage.cases import CASES, Form

PAGE = Path(__file__).parents[2] / "docs" / "isolation.md"
#: What is run, by the heading of its column.
SYSTEMS = {
    "spark-snapshot": "Spark, `snapshot`",
    "spark-serializable": "Spark, `serializable`",
    "http-snapshot": "HTTP, `snapshot`",
    "http-serializable": "HTTP, `serializable`",
    "delta": "plain Delta 4.4",
}
HEADINGS: dict[Form, str] = {"single": "single-table form", "multi": "multi-table form"}
Results = Mapping[tuple[str, Form, str], str]
"""Verdicts (:attr:`benchmarks.hermitage.running.Verdict.text`) by system, form and case."""

_CASES = [case.name for case in CASES]
_SERIALIZABLE = dict.fromkeys(_CASES, "refused") | dict.fromkeys(("G1a", "G1b", "PMP", "G-single"), "not visible")
_SNAPSHOT = _SERIALIZABLE | {"G1c": "not visible", "G2-item": "allowed", "G2": "allowed"}
#: The clients over HTTP do not look at the commits that won: every commit to a table that is written is a conflict there, so the
#: single-table form cannot tell their levels apart.
_COARSE = {("http-snapshot", "single"): _SERIALIZABLE}
EXPECTED: Results = {
    (f"{way}-{level}", form, case): verdict
    for way in ("spark", "http")
    for level, verdicts in (("snapshot", _SNAPSHOT), ("serializable", _SERIALIZABLE))
    for form in HEADINGS
    for case, verdict in _COARSE.get((f"{way}-{level}", form), verdicts).items()
} | {("delta", form, case): "allowed" for form in HEADINGS for case in _CASES}

#: What the documentation of Databricks says of transactions, read as an answer for each case.
_DATABRICKS: dict[Form, dict[str, str]] = {
    "single": dict.fromkeys(_CASES, "prevented"),
    "multi": dict.fromkeys(_CASES, "prevented")
    | dict.fromkeys(("OTV", "PMP", "G-single"), "unclear")
    | dict.fromkeys(("G2-item", "G2"), "allowed"),
}


def table(form: Form, results: Results) -> str:
    """The table of one form in Markdown. What has no result was not run."""
    heads = ["anomaly", *SYSTEMS.values(), "*Databricks documents*"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for case in CASES:
        cells = [f"**{case.name}**"]
        cells += [_shown(results.get((system, form, case.name), "not run")) for system in SYSTEMS]
        cells.append(f"*{_DATABRICKS[form][case.name]}*")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(verdict: str) -> str:
    return "**allowed**" if verdict == "allowed" else verdict


def anomalies() -> str:
    """Each anomaly in a sentence, in Markdown."""
    lines = ["| anomaly | what happens |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| **{case.name}**, {case.title} | {case.sentence} |" for case in CASES)])


def filled(page: str, results: Results) -> str:
    """The page with these results between its markers."""
    blocks = {"anomalies": anomalies(), "single": table("single", results), "multi": table("multi", results)}
    for name, block in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}{block}\n{end}{rest.split(end)[1]}"
    return page


def write(results: Results) -> None:
    """Writes results into the page."""
    PAGE.write_text(filled(PAGE.read_text(), results))

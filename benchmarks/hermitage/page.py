"""What is expected of every system, and the tables of docs/isolation.md. Pure but for
:func:`write`."""

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
#: The clients over HTTP do not look at the commits that won: every commit to a table that is
#: written is a conflict there, so the single-table form cannot tell their levels apart.
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


def both(results: Results) -> str:
    """The table of the page: each anomaly in a sentence, with its verdicts in both forms."""
    heads = ["anomaly", *SYSTEMS.values(), "*Databricks documents*"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for case in CASES:
        cells = [f"**{case.name}**, {case.title}. {case.sentence}"]
        cells += [
            _pair(*(_shown(results.get((system, form, case.name), "not run")) for form in HEADINGS))
            for system in SYSTEMS
        ]
        cells.append(_pair(*(f"*{_DATABRICKS[form][case.name]}*" for form in HEADINGS)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(single: str, multi: str) -> str:
    return single if single == multi else f"{single}; {multi}"


def filled(page: str, results: Results) -> str:
    """The page with these results between its markers."""
    begin = "<!-- anomalies -->\n"
    end = "<!-- end of anomalies -->"
    before, rest = page.split(begin)
    return f"{before}{begin}{both(results)}\n{end}{rest.split(end)[1]}"


def write(results: Results) -> None:
    """Writes results into the page."""
    PAGE.write_text(filled(PAGE.read_text(), results))

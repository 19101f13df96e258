"""Checks the expectations of a branch in Spark where the server does not read the files: they are
too large, or it cannot read them.

    1  the server   checks, and asks a question for each expectation that it cannot decide
    2  Spark        counts, in one query for the rows that the branch added to a table, and one for
                    the whole table, at the versions that the server compared
    3  the server   gets the numbers, decides by them, and records them for exactly this state

A predicate is SQL of the server's grammar: comparisons of columns with literals, no functions. It
is evaluated in a session of its own, in UTC, as the server reads times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from turnstile_http.api import Api
from turnstile_http.branches import BranchChanges, Branches
from turnstile_http.errors import ApiError
from turnstile_spark.branches.counts import AttachedBranch, BranchRows, Check, Finding, findings_of
from turnstile_spark.errors import as_turnstile_error

#: The lake of a branch has one name in Spark: a coordinator is never unregistered.
_lock: Final = threading.Lock()


class SparkBranches(Branches):
    """The branches of a lake. ``open_branch`` attaches the catalog of one."""

    def __init__(self, api: Api, open_branch: Callable[[str], AttachedBranch]) -> None:
        super().__init__(api, as_turnstile_error)
        self._open_branch = open_branch

    def check(self, name: str) -> list[Check]:
        """As ``Branches.check``. What the server does not read is counted in Spark, and recorded,
        so that it counts for a promotion of these changes. Numbers of a principal that may not
        promote a table are shown in the ``problem``, and are not recorded."""
        changes = self.changes(name)
        asked = [check for check in changes.checks if check.get("question")]
        if not asked:
            return [check | _of_old_server(check) for check in changes.checks]
        bases = {table["name"]: table["base"] for table in changes.tables}
        with _lock, self._open_branch(f"{self._catalog}@{name}") as lake:
            counted = _Findings()
            for table, checks in groupby(asked, lambda check: str(check["table"])):
                counted.count(lake, table, [*checks], bases.get(table))
        return self._record(name, changes, counted)

    def _record(self, name: str, changes: BranchChanges, counted: _Findings) -> list[Check]:
        if not counted.findings:
            return counted.annotate(changes.checks)
        body = {"state": changes.state, "findings": [*counted.findings.values()]}
        try:
            answer = self._http.call("recordBranchChecks", "POST", self._route(name, "checks"), body)
        except ApiError as error:
            if error.status not in (403, 404):
                raise self._error(error) from None
            return counted.annotate(changes.checks, f"not recorded: {error}")
        return counted.annotate(answer["checks"])


def _of_old_server(check: Check) -> Check:
    if check["outcome"] != "unchecked" or "question" in check:
        return {}
    return {"problem": f"{check['problem']}; this server takes no numbers that Spark counts: update it"}


class _Findings:
    """The findings of checks, and the reasons why there are none."""

    def __init__(self) -> None:
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self._failures: dict[tuple[str, str, str], str] = {}

    def count(self, lake: AttachedBranch, table: str, checks: Sequence[Check], base: int | None) -> None:
        """Counts what the checks of a table ask; ``base``: the version with which the log of the
        branch's table begins, None: the branch created it."""
        try:
            rows = BranchRows(lake, table, int(checks[0]["version"]), base)
            found = findings_of(rows, checks)
        except (PySparkException, Py4JError) as error:
            self._fail(checks, error)
            return
        for check, finding in zip(checks, found, strict=True):
            if isinstance(finding, Exception):
                self._fail([check], finding)
            else:
                self.findings[_key(check)] = finding

    def annotate(self, checks: Sequence[Check], remark: str = "") -> list[Check]:
        """The checks; the problem of one that is still asked says why it is not decided."""
        return [check | self._problem(check, remark) for check in checks]

    def _problem(self, check: Check, remark: str) -> Check:
        key = _key(check) if check.get("question") else None
        if key in self._failures:
            return {"problem": f"{check['problem']}; Spark: {self._failures[key]}"}
        if remark and key in self.findings:
            return {"problem": f"{check['problem']}; Spark counted {numbers_text(self.findings[key])}; {remark}"}
        return {}

    def _fail(self, checks: Sequence[Check], error: Exception) -> None:
        self._failures |= {_key(check): f"{error}".partition("\n")[0][:300] for check in checks}


def _key(check: Check) -> tuple[str, str, str]:
    return check["table"], check["expectation"], check["question"]["text"]


def numbers_text(finding: Finding) -> str:
    """The numbers of a finding that is not recorded."""
    names = [name for name in ("rows", "broken", "newest_us", "examples") if finding.get(name) not in (None, "")]
    return ", ".join(f"{name} {finding[name]}" for name in names)

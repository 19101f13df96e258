"""The rules of Delta's protocol in docs/compatibility.md: the page cites code and tests that exist, and numbers its rules without gaps."""

import re

import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]


def test_rules_are_numbered_without_gaps():
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, len(ROWS) + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_code_and_tests_of_a_rule_exist(row):
    cited = re.findall(r"`([\w./-]+/[\w./-]+\.\w+)(?:::(\w+))?`", row)
    assert any(test for _, test in cited), "no test is named"
    for path, test in cited:
        file = ROOT / path
        assert file.is_file(), path
        if test:
            assert re.search(rf"^\s*def {test}\(", file.read_text(), re.MULTILINE), f"{path} has no {test}"

"""The rules of Delta's protocol in tests/PROTOCOL.md are numbered without gaps, and cite tests
that exist."""

import re

import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "tests" / "PROTOCOL.md").read_text()
RULES = re.findall(r"^(\d+)\. ((?:.+\n)(?:  .+\n)*)", PAGE, re.MULTILINE)


def test_rules_are_numbered_without_gaps():
    assert [int(number) for number, _ in RULES] == list(range(1, len(RULES) + 1))
    assert len(RULES) >= 34


@pytest.mark.parametrize(("number", "rule"), RULES, ids=[number for number, _ in RULES])
def test_tests_of_a_rule_exist(number, rule):
    cited = re.findall(r"`([\w./-]+/[\w./-]+\.\w+)(?:::(\w+))?`", rule)
    assert any(test for _, test in cited), "no test is named"
    for path, test in cited:
        file = ROOT / path
        assert file.is_file(), path
        if test:
            assert re.search(rf"^\s*def {test}\(", file.read_text(), re.MULTILINE), f"{path} has no {test}"

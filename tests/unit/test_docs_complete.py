"""Pages that list things list all of them."""

import re

import pytest
import yaml

from tests.unit.docs_kit import ROOT

DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


def test_every_direct_dependency_has_its_reason():
    page = (DOCS / "dependencies.md").read_text()
    listed = set(
        re.findall(r"`([\w-]+)`", "".join(line.split("|")[1] for line in page.splitlines() if line[:3] == "| `"))
    )
    wanted = set()
    for file in (ROOT / "requirements").glob("*.in"):
        lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
        wanted |= {re.match(r"[\w-]+", line)[0] for line in lines if line and not line.startswith("-")}
    assert wanted - listed == set()


def test_every_alarm_has_a_section_in_the_runbook():
    class Loader(yaml.SafeLoader):
        """Leaves CloudFormation's tags alone."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)
    template = yaml.load((ROOT / "infra" / "alarms.yaml").read_text(), Loader)
    alarms = {name for name, r in template["Resources"].items() if r["Type"] == "AWS::CloudWatch::Alarm"}
    sections = set(re.findall(r"^## (\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE))
    assert alarms <= sections


def test_every_parameter_of_the_template_is_explained():
    text = (ROOT / "template.yaml").read_text().split("\nConditions:")[0].split("\nParameters:")[1]
    page = (DOCS / "deploy.md").read_text()
    assert [name for name in re.findall(r"^  (\w+):", text, re.MULTILINE) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_says_context_decision_and_consequences_and_is_listed(decision):
    text = decision.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:3] == ["Context", "Decision", "Consequences"]
    assert re.search(r"^Status: (proposed|accepted|superseded by )", text, re.MULTILINE)
    assert f"({decision.name})" in (DOCS / "decisions" / "README.md").read_text()

"""Pages that list things list all of them."""

import re

import pytest
import yaml

from tests.support.repository import ROOT, snippets
from turnstile.api.http.responses import STATUS
from turnstile.store.core.errors import NotFound

DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Leaves CloudFormation's tags alone."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)


def _template(name):
    """A template of CloudFormation."""
    return yaml.load((ROOT / name).read_text(), _Loader)


def test_every_direct_dependency_has_its_reason():
    page = (DOCS / "dependencies.md").read_text()
    heads = (line.partition("`: ")[0] + "`" for line in page.splitlines() if line.startswith("* `"))
    listed = set(re.findall(r"`([\w-]+)`", "".join(heads)))
    wanted = set()
    for file in (
        *(ROOT / "requirements").glob("*.in"),
        ROOT / "infra/sam.in",
        ROOT / "infra/site.in",
        ROOT / "benchmarks/fleet/peers.in",
    ):
        lines = (line.split("#")[0].strip() for line in file.read_text().splitlines())
        wanted |= {re.match(r"[\w-]+", line)[0] for line in lines if line and not line.startswith("-")}
    assert wanted - listed == set()


def test_every_alarm_has_a_section_in_the_runbook():
    resources = _template("infra/alarms.yaml")["Resources"]
    alarms = {name for name, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm"}
    sections = set(re.findall(r"^## (\w+)$", (DOCS / "operations.md").read_text(), re.MULTILINE))
    assert alarms <= sections


def test_the_command_for_the_alarms_gives_every_parameter_and_takes_what_the_template_puts_out():
    command = next(s.code for s in snippets() if s.page == "docs/deploy.md" and "infra/alarms.yaml" in s.code)
    looped = re.search(r"for name in (.+?); do", command, re.DOTALL)[1].replace("\\", " ").split()
    parameters = _template("infra/alarms.yaml")["Parameters"]
    outputs = _template("template.yaml")["Outputs"]
    needed = {name for name, one in parameters.items() if "Default" not in one}
    assert needed == {"FailureQueueName", *looped}
    assert {"PublishFailuresName", *looped} <= outputs.keys()
    assert [name for name in parameters if name not in command + (DOCS / "deploy.md").read_text()] == []


def test_every_type_of_error_is_in_the_table_of_the_api():
    table = (DOCS / "api.md").read_text().split("| status | types |")[1].split("\n\n")[0]
    domain = (path.read_text() for path in (ROOT / "layers" / "turnstile").rglob("*.py") if "iceberg" not in path.parts)
    missing = {what for text in domain for what in re.findall(r'NotFound\(\s*"([a-z ]+)"', text)}
    types = {*STATUS, *(NotFound(what, "x").type for what in missing)}
    assert {"NoSuchSnapshot", "NoSuchClient", "GcRunning"} <= types
    assert sorted(name for name in types if f"`{name}`" not in table) == []


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

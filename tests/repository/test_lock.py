"""The lock: exact versions, a hash for each, no addresses, one resolution for all lists."""

import re

import pytest

from tests.support.repository import ROOT

LISTS = sorted((ROOT / "requirements").glob("*.txt"))
ELSEWHERE = [
    ROOT / "infra" / "lambda.txt",
    ROOT / "infra" / "localemu.txt",
    ROOT / "infra" / "sam.txt",
    ROOT / "infra" / "site.txt",
    ROOT / "benchmarks" / "fleet" / "peers.txt",
    *sorted((ROOT / "layers").glob("*.txt")),
]
_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


def pins(text):
    return dict(_PIN.findall(text))


DEV = pins((ROOT / "requirements" / "dev.txt").read_text())


def wanted(path):
    """Names in an .in file and those it includes."""
    found = set()
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("-r"):
            found |= wanted(path.parent / line.split()[1])
        elif line:
            found.add(re.match(r"[\w.-]+", line)[0].lower())
    return found


@pytest.mark.parametrize("path", LISTS + ELSEWHERE, ids=lambda path: path.name)
def test_every_requirement_is_exact_and_hashed_and_has_no_address(path):
    text = path.read_text()
    entries = [e for e in re.split(r"\n(?=\S)", text) if not e.startswith("#")]
    assert entries
    for entry in entries:
        assert _PIN.match(entry), entry
        assert "--hash=sha256:" in entry, entry
    assert "://" not in text


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_a_list_has_what_its_input_asks_for_in_the_versions_of_the_whole(path):
    found = pins(path.read_text())
    assert wanted(path.with_suffix(".in")) <= set(found)
    assert {name: version for name, version in found.items() if DEV.get(name) != version} == {}


@pytest.mark.parametrize(("layer", "list"), [("shared", "layer"), ("arrow", "maintain")])
def test_a_layer_has_the_versions_and_hashes_of_the_lock(layer, list):
    layer = pins((ROOT / "layers" / f"{layer}.txt").read_text())
    assert wanted(ROOT / "requirements" / f"{list}.in") <= set(layer)
    assert layer.items() <= DEV.items()

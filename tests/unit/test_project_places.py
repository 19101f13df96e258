"""What is tracked is the project: no places of one machine, no addresses of package indexes, nothing generated."""

import re

from tests.unit.docs_kit import ROOT, tracked

_HOMES = "work|farm|root|home/[a-z]+|Users/[a-z]+"
_MACHINE = re.compile(rf"(^|[\s\"'(=:])/({_HOMES})/", re.MULTILINE)
_INDEXES = "pypi|pythonhosted|repo1?[.]maven|npmjs|crates[.]io|proxy[.]golang|deb[.]debian"
_INDEX = re.compile(rf"https?://[^\s\"/]*({_INDEXES})")
_GENERATED = re.compile(r"(^|/)(\.venv|__pycache__|build|dist|\.turnstile|[^/]+\.egg-info|\.mypy_cache)/|\.pyc$|\.jar$")


def _texts():
    for name in tracked():
        try:
            yield name, (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_place_on_one_machine():
    assert [name for name, text in _texts() if _MACHINE.search(text)] == []


def test_no_file_names_a_package_index():
    assert [name for name, text in _texts() if _INDEX.search(text)] == []


def test_nothing_generated_is_tracked():
    assert [name for name in tracked() if _GENERATED.search(name)] == []

"""What is tracked is the project: no places of one machine, no addresses of package indexes,
nothing generated."""

import os
import re

from tests.support.repository import ROOT, tracked

_HOME = re.compile(r"(^|[\s\"'(=:/])/(root|home/[a-z]+|Users/[a-z]+)/", re.MULTILINE)
_PATH = re.compile(r"(?:^|[\s\"'(=:])(/[\w.-]+)(/[\w.-]+)", re.MULTILINE)
_EVERYWHERE = re.compile(r"/(bin|boot|dev|etc|home|lib(32|64)?|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)")
"""Folders that the Filesystem Hierarchy Standard puts at the root, and Linux's own."""

_INDEXES = "pypi|pythonhosted|repo1?[.]maven|npmjs|crates[.]io|proxy[.]golang|deb[.]debian"
_INDEX = re.compile(rf"https?://[^\s\"/]*({_INDEXES})")
_GENERATED = re.compile(r"(^|/)(\.venv|__pycache__|build|dist|\.turnstile|[^/]+\.egg-info|\.mypy_cache)/|\.pyc$|\.jar$")


def _texts():
    for name in tracked():
        try:
            yield name, (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue


def _here(text):
    """The places of this machine that a text names: what exists in folders at the root that not
    every machine has."""
    found = {top + below for top, below in _PATH.findall(text) if not _EVERYWHERE.fullmatch(top)}
    return {place for place in found if os.path.exists(place)}


def test_no_file_names_the_home_of_a_user():
    assert [name for name, text in _texts() if _HOME.search(text)] == []


def test_no_file_names_a_place_of_this_machine():
    assert {name: here for name, text in _texts() if (here := _here(text))} == {}


def test_a_place_of_this_machine_is_noticed(monkeypatch):
    monkeypatch.setattr(os.path, "exists", {"/disk/checkout"}.__contains__)
    assert _here("see /disk/checkout/README.md, /usr/bin and GET /v1/tables") == {"/disk/checkout"}


def test_no_file_names_a_package_index():
    assert [name for name, text in _texts() if _INDEX.search(text)] == []


def test_nothing_generated_is_tracked():
    assert [name for name in tracked() if _GENERATED.search(name)] == []

"""Iceberg's REST compatibility kit, unmodified: everything passes but what docs/iceberg.md lists
with its reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.downloads import Missing
from tests.support.iceberg import compatibility_kit
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_local import Stack

MOST_EXCEPTIONS = 5
NOT_FOR_THIS_KIND = re.compile(
    "Only valid for catalogs that support|isn.t configurable per test|supportsNamesWithSlashes|assumption was not met"
)
"""What the kit itself says of tests that it does not run against catalogs with namespaces of their
own."""


def listed() -> set[str]:
    """The tests that the page lists as not passed."""
    page = (ROOT / "docs/iceberg.md").read_text()
    section = page.partition("### What does not pass")[2].partition("\n#")[0]
    return {
        name for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }


@pytest.mark.slow
@pytest.mark.timeout(compatibility_kit.RUN_SECONDS + 300)
def test_icebergs_compatibility_kit_passes_but_for_what_the_page_lists(stack: Stack, tmp_path: Path) -> None:
    try:
        outcome = compatibility_kit.run(f"{stack.url}/iceberg", "main", tmp_path)
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    failed = {name.rpartition(".")[2]: text for name, text in outcome.failed.items()}
    count = f"{len(outcome.passed)} passed, {len(failed)} failed, {len(outcome.skipped)} skipped"
    assert failed.keys() == listed(), f"{count}: " + "\n".join(f"{name}: {text[:600]}" for name, text in failed.items())
    assert len(failed) <= MOST_EXCEPTIONS
    assert len(outcome.passed) + len(failed) == 147, f"{count}: the kit was not run whole"
    assert all(NOT_FOR_THIS_KIND.search(text) for text in outcome.skipped.values()), outcome.skipped

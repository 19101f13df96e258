"""Links between pages, and from pages to code, lead somewhere."""

import re

import pytest

from tests.support.repository import ROOT, anchors, pages, without_code

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_page_leads_to_a_file_and_a_heading(page):
    broken = []
    for target in _LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            broken.append(target)
    assert broken == []


def test_every_page_is_linked_from_another_one():
    """But the README, where one begins."""
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in pages()
        for target in _LINK.findall(without_code(page.read_text()))
        if not target.startswith("#")
    }
    assert [str(page) for page in pages() if page not in {*linked, ROOT / "README.md"}] == []


def test_the_pages_that_the_readme_promises_are_there():
    text = (ROOT / "README.md").read_text()
    for page in (
        "architecture",
        "api",
        "compatibility",
        "invariants",
        "operations",
        "dependencies",
        "decisions/README",
    ):
        assert f"docs/{page}.md" in text

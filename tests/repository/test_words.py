"""The words of the product: docstrings have subjects that can act, names are nouns or verbs
(docs/style.md)."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

import pytest

from tests.support.repository import ROOT, blocks, docstrings_in, syntax_tree

PACKAGES: Final = ("layers", "functions", "server", "http_client", "spark_client", "python_client", "cli", "infra")
PRONOUNS: Final = frozenset(
    ("who", "whom", "whoever", "whatever", "what", "nobody", "somebody", "anybody", "everybody")
)
RELATIVE: Final = frozenset(("whose", "those"))
"""Good in ``a table whose log is gone``, dark as a subject."""
BOUND: Final = 0.15
BOUND_WITH_RELATIVE: Final = 0.3
"""Of a hundred words. Lower them when the figures fall."""
IRREGULAR: Final = frozenset(
    (
        "held",
        "told",
        "shown",
        "found",
        "made",
        "said",
        "left",
        "kept",
        "lost",
        "taken",
        "given",
        "known",
        "seen",
        "written",
        "sent",
        "built",
        "begun",
        "gone",
        "done",
        "bound",
        "chosen",
        "hidden",
        "drawn",
        "frozen",
        "asked",
    )
)
NOT_PARTICIPLES: Final = frozenset(("need", "embed", "feed", "seed", "speed", "exceed", "proceed", "shed", "bed"))
PUBLISHED: Final = frozenset(("planned", "written"))
"""Names that users of the Spark client call: ``lake.table(...).planned``,
``transaction.written``."""
FIRST_WORDS: Final = frozenset(("what", "who", "whose", "whom", "whoever", "nobody", "somebody", "those"))


@cache
def trees(package: str) -> list[tuple[str, ast.Module]]:
    """Returns a package's modules with their paths, parsed."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return [(str(path.relative_to(ROOT)), syntax_tree(path.read_text())) for path in paths]


@cache
def docstrings(package: str) -> list[tuple[str, str]]:
    """Returns the place and the text of every docstring of modules, classes, functions and
    attributes."""
    return [
        (f"{path}:{docstring.lineno}", str(docstring.value))
        for path, tree in trees(package)
        for docstring in docstrings_in(tree)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_subjects_that_can_act(package: str) -> None:
    words = [word for _, text in docstrings(package) for word in re.findall(r"[a-z']+", text.lower())]
    dark = sum(word in PRONOUNS for word in words)
    relative = sum(word in RELATIVE for word in words)
    hint = "name the subject (docs/style.md)"
    assert 100 * dark <= BOUND * len(words), f"{dark} indefinite pronouns in {len(words)} words: {hint}"
    assert 100 * (dark + relative) <= BOUND_WITH_RELATIVE * len(words), f"{dark + relative} in {len(words)}: {hint}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_begins_with_an_indefinite_pronoun(package: str) -> None:
    dark = [f"{place}: {text.strip()[:60]}" for place, text in docstrings(package) if first_word(text) in FIRST_WORDS]
    assert not dark, "say what is returned or done (docs/style.md):\n" + "\n".join(dark)


def first_word(text: str) -> str:
    return re.split(r"[^A-Za-z]", text.strip(), maxsplit=1)[0].lower()


@cache
def participles() -> list[tuple[str, str]]:
    """Returns the place and the name of every function that is named by a bare participle."""
    return [
        (f"{path}:{node.lineno}", node.name)
        for package in PACKAGES
        for path, tree in trees(package)
        for node in blocks(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name.strip("_"))
    ]


def is_participle(word: str) -> bool:
    regular = word.endswith("ed") and word not in NOT_PARTICIPLES
    return "_" not in word and word.islower() and (regular or word in IRREGULAR)


def test_no_function_is_named_by_a_bare_participle() -> None:
    found = [f"{place} {name}" for place, name in participles() if name not in PUBLISHED]
    assert not found, "name the action or the thing: parse, lost_swap (docs/style.md):\n" + "\n".join(found)


@pytest.mark.parametrize(("word", "expected"), [("held", True), ("parsed", True), ("parse", False), ("need", False)])
def test_participles_are_recognised(word: str, expected: bool) -> None:
    assert is_participle(word) is expected

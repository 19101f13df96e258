"""Where the repository is, the files that belong to it, and the parts of its Markdown pages."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_RUN = re.compile(r"<!-- run: (\w+) -->\s*$")


@cache
def tracked() -> tuple[str, ...]:
    """Paths of the files that belong to the project; without git, of those that look like it."""
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode == 0:
        return tuple(name for name in answer.stdout.split("\0") if name and (ROOT / name).is_file())
    skipped = {".venv", ".git", ".turnstile", "build", "__pycache__"}
    files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return tuple(str(path) for path in files if not skipped & set(path.parts))


def pages() -> list[Path]:
    """All Markdown pages."""
    return [ROOT / name for name in tracked() if name.endswith(".md")]


@dataclass(frozen=True)
class Snippet:
    """A fenced block; ``run`` is the request of a comment before it, if there is one."""

    page: str
    line: int
    language: str
    code: str
    run: str | None

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def snippets() -> tuple[Snippet, ...]:
    """Every fenced block of every page, in order."""
    found = []
    for page in pages():
        text = page.read_text()
        for match in _FENCE.finditer(text):
            before = text[: match.start()]
            run = _RUN.search(before)
            line = before.count("\n") + 1
            code = match["code"]
            name = str(page.relative_to(ROOT))
            found.append(Snippet(name, line, match["language"], code, run[1] if run else None))
    return tuple(found)


def without_code(text: str) -> str:
    """The page less its fenced blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as renderers make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def syntax_tree(text: str) -> ast.Module:
    """Returns the syntax tree of a module. The collector of garbage is off meanwhile: it takes four
    fifths of the time where many trees are kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Returns the full names of what a module imports, by local name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.asname: name.name for name in node.names if name.asname}
            found |= {first: first for name in node.names if (first := name.name.partition(".")[0])}
    return found


def full_name(expression: ast.expr, imports: dict[str, str]) -> str:
    """Returns the full name of a function or class, as a module with these imports names it."""
    head, dot, rest = ast.unparse(expression).partition(".")
    return imports.get(head, head) + dot + rest


def blocks(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields a module and all in it that has statements of its own: ten times as fast as
    ``ast.walk``."""
    yield tree
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(tree, name, ())
        for each in inner if isinstance(inner, list) else ():
            if hasattr(each, "body"):
                yield from blocks(each)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yields every statement of a module, also nested ones."""
    for node in blocks(tree):
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, ())
            if isinstance(inner, list):
                yield from inner


def docstrings_in(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields the docstrings of a module: of itself, classes, functions and attributes."""
    for node in blocks(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = getattr(statement, "value", None) if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value

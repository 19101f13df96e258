"""Hooks of the site (mkdocs.yml): a link that leads out of docs/ becomes the path that it names,
for the site has no such page; and a line ``<!-- operations: openapi/v1.yaml -->`` becomes a table
of that document's operations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

_LINK: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")
_OPERATIONS: Final = re.compile(r"<!-- operations: (\S+) -->")
_METHODS: Final = ("get", "post", "put", "patch", "delete", "head")
_ROOT: Final = Path(__file__).resolve().parent.parent


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs calls it for each page; returns the page's source."""
    levels = page.file.src_uri.count("/") + 1

    def path_of(match: re.Match[str]) -> str:
        text, target = match.groups()
        if not target.startswith("../" * levels):  # another page
            return match[0]
        path = target.removeprefix("../" * levels)
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return _OPERATIONS.sub(lambda match: operations(_ROOT / match[1]), _LINK.sub(path_of, markdown))


def operations(document: Path) -> str:
    """The operations of an OpenAPI document as a table: method and path, summary, statuses of its
    answers."""
    described = yaml.safe_load(document.read_text())
    rows = ["| operation | | answers |", "| --- | --- | --- |"]
    for path, item in described["paths"].items():
        for method in _METHODS:
            if method in item:
                summary = str(item[method].get("summary") or item[method]["operationId"]).replace("|", "\\|")
                rows.append(f"| `{method.upper()} {path}` | {summary} | {', '.join(item[method]['responses'])} |")
    return "\n".join(rows)

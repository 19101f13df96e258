"""Which route a path belongs to.

The gateway's own match is not used: a ``$default`` route, a function URL and a stage prefix then all behave alike,
and an unknown path is answered in our error shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote


class Router:
    """Matches paths against templates such as ``/v1/tables/{table_id}``; literal segments win over parameters."""

    def __init__(self, templates: Iterable[str]) -> None:
        ordered = sorted(templates, key=lambda template: (template.count("{"), template))
        self._routes = [(template, _pattern(template)) for template in ordered]

    def match(self, path: str) -> tuple[str, dict[str, str]] | None:
        """The template and its parameters, percent-decoded exactly once, or None."""
        for template, pattern in self._routes:
            found = pattern.fullmatch(path)
            if found:
                return template, {name: unquote(value) for name, value in found.groupdict().items()}
        return None


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile(
        "".join(re.escape(part) if i % 2 == 0 else f"(?P<{part}>[^/]+)" for i, part in enumerate(parts)), re.DOTALL
    )

"""A server that accepts no changes, because its store may be behind its lake (``turnstile serve
--closed``).

It answers reads, and operations that repair tables. It refuses everything else until its home has
no ``closed`` file any more (``turnstile open``), or it is started without the option. Its
background rests meanwhile: it publishes, sweeps, collects and maintains nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from turnstile.store.core.errors import ServerClosed

_READS: Final = ("GET", "HEAD", "OPTIONS")

_UNITY: Final = "/api/2.1/unity-catalog"
_ICEBERG: Final = "/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}"

TAKEN: Final = frozenset({
    ("POST", "/v1/tables/{table_id}/repair"),
    ("POST", "/v1/tables/{table_id}/publish"),
    ("POST", "/v1/checks"),
    ("POST", "/v1/snapshots"),
    ("POST", "/v1/tables/{table_id}/plan"),
    ("POST", "/v1/tables/{table_id}/judge"),
    ("POST", f"{_UNITY}/temporary-table-credentials"),
    ("POST", f"{_UNITY}/temporary-path-credentials"),
    ("POST", f"{_UNITY}/delta/v1/catalogs/{{catalog}}/schemas/{{schema}}/tables/{{table}}/metrics"),
    ("POST", f"{_ICEBERG}/plan"),
    ("DELETE", f"{_ICEBERG}/plan/{{plan_id}}"),
    ("POST", f"{_ICEBERG}/tasks"),
    ("POST", f"{_ICEBERG}/metrics"),
    ("POST", f"{_UNITY}/iceberg-rest/v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}/plan"),
    ("POST", "/oauth/token"),
    ("POST", "/api/1.0/unity-control/auth/tokens"),
})  # fmt: skip
"""Requests that change no table and no name, or repair one, though their method is that of a
change."""


class Door:
    """Whether changes are taken. ``file``: while it is there, they are not; None: they always
    are."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    @property
    def is_closed(self) -> bool:
        return self._file is not None and self._file.exists()

    def refusal(self, method: str, route: str) -> ServerClosed | None:
        """Why a request is refused; None for one that is not. ``route``: the template of its path,
        empty for none."""
        if self._file is None or method in _READS or not route or (method, route) in TAKEN or not self.is_closed:
            return None
        return ServerClosed(
            "this server is closed: it takes no changes until its tables were compared with their logs; nothing was "
            "changed",
            remedy="run 'turnstile repair --all', then 'turnstile open'; and send the same request again",
        )

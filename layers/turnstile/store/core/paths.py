"""Paths below a table's location."""

from __future__ import annotations

from turnstile.store.core.names import version_file

LOG = "_delta_log/"
STAGED = "_delta_log/_staged_commits/"


def published_path(version: int) -> str:
    """``_delta_log/<20 digits>.json``."""
    return LOG + version_file(version)


def staged_path(name: str) -> str:
    """``_delta_log/_staged_commits/<name>``."""
    return STAGED + name

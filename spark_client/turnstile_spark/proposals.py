"""The work after a proposal is ratified: its file has to be there before the statement returns."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import replace

from turnstile_http.api import Api, Commit
from turnstile_http.errors import ApiError

log = logging.getLogger("turnstile_spark")


def await_file(api: Api, table_id: str, commit: Commit, name: str, written: Future[None]) -> Commit:
    """Makes sure that the file of a ratified commit exists. Never fails: the commit stands without
    it.

    Returns the commit as the server has it now. One that was published meanwhile is not
    materialised any more: its file is the one in ``_delta_log`` (I4).
    """
    try:
        if commit.name == name:
            written.result()
            return commit
    except Exception as e:
        log.warning("turnstile_spark: could not write %s (%s); the server writes it", name, e)
    try:
        tail = api.commits(table_id, commit.version, commit.version)  # materialises before it answers
        return replace(commit, published=tail.floor >= commit.version)
    except ApiError as e:
        log.warning("turnstile_spark: version %s is ratified, its file not written yet: %s", commit.version, e)
        return commit


def already_written() -> Future[None]:
    """Of a file that is there already."""
    future: Future[None] = Future()
    future.set_result(None)
    return future

"""Moments that a request's body names, and tokens that name a HEAD: what can be none is refused before anything is asked
of the store, which takes neither an empty key nor one of more than a kilobyte (tests/contract/store/test_objs.py)."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.functional.v1.test_catalog import NAMESPACES, Stack, refused, stack
from turnstile.catalog.paging import Token, to_text

__all__ = ["stack"]

CATALOG = "/v1/catalogs/main"
NO_HEADS = ["", "commit/", "entity/x", "commit/../x", "commit/" + "x" * 101, "x" * 3000, "a b", "é"]

Body = dict[str, object]


def asked(stack: Stack, field: str, when: object) -> tuple[str, Body]:
    """A request that names ``when`` in its member ``field``."""
    stack.http.post(NAMESPACES, {"name": "hr"})
    bodies: dict[str, tuple[str, Body]] = {
        "reset": ("/reset", {"to": when}),
        "snapshot": ("/snapshots", {"name": "s", "of": when}),
        "clone": ("/clones", {"from": "hr", "to": "hr2", "of": when}),
    }
    path, body = bodies[field]
    return CATALOG + path, body


OPERATIONS = {"reset": "to", "snapshot": "of", "clone": "of"}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("head", NO_HEADS, ids=lambda head: f"{head[:12]}({len(head)})")
def test_a_head_that_can_be_none_is_refused_with_the_member_that_names_it(
    stack: Stack, operation: str, head: str
) -> None:
    path, body = asked(stack, operation, {"head": head})
    before = dict(stack.world.refs.rows)
    error = refused(stack.http.post(path, body), 400, "InvalidRequest", f"{OPERATIONS[operation]}.head")
    assert error["remedy"] == "list the catalog's log"
    assert stack.world.refs.rows == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_moment_is_one_member_and_a_snapshot_has_a_name(stack: Stack, operation: str) -> None:
    field = OPERATIONS[operation]
    for when in ({}, {"seq": 1, "head": "commit/a"}, {"head": "commit/a", "snapshot": "s"}):
        path, body = asked(stack, operation, when)
        refused(stack.http.post(path, body), 400, "InvalidRequest", field)
    for name in ("", "a/b", "x" * 256):
        path, body = asked(stack, operation, {"snapshot": name})
        refused(stack.http.post(path, body), 400, "InvalidRequest", f"{field}.snapshot")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_head_that_never_was_is_not_there(stack: Stack, operation: str) -> None:
    path, body = asked(stack, operation, {"head": "commit/" + "0" * 32})
    refused(stack.http.post(path, body), 404, "NoSuchCatalogCommit", f"{OPERATIONS[operation]}.head")


def test_a_head_may_be_written_as_the_log_has_it_or_without_its_prefix(stack: Stack) -> None:
    stack.http.post(NAMESPACES, {"name": "hr"})
    head = stack.http.get(CATALOG + "/log").json["commits"][0]["head"]
    for number, written in enumerate((head, head.removeprefix("commit/"))):
        made = stack.http.post(CATALOG + "/snapshots", {"name": f"s{number}", "of": {"head": written}})
        assert (made.status, made.json["head"]) == (201, head), made.text


@pytest.mark.parametrize("head", NO_HEADS, ids=lambda head: f"{head[:12]}({len(head)})")
def test_i6_a_page_token_with_another_thing_than_a_head_is_refused(stack: Stack, head: str) -> None:
    """Tokens are checked, not signed: whoever knows how can write one."""
    token = to_text(Token("main", head, "", "namespace", "", stack.world.clock.now_ms()))
    answer = stack.http.call("GET", NAMESPACES, query=f"page_token={quote(token)}")
    refused(answer, 400, "InvalidRequest", "page_token")

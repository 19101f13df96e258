"""Moments that a request's body names, and tokens that name a HEAD: what can be none is refused
before anything is asked of the store, which takes neither an empty key nor one of more than a
kilobyte (tests/contract/store/test_objs.py)."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.v1 import NAMESPACES, CatalogApi, refused
from turnstile.catalog.paging import PageToken
from turnstile.store.core.opaque import seal

CATALOG = "/v1/catalogs/main"
NO_HEADS = ["", "commit/", "entity/x", "commit/../x", "commit/" + "x" * 101, "x" * 3000, "a b", "é"]

Body = dict[str, object]


def asked(api: CatalogApi, field: str, when: object) -> tuple[str, Body]:
    """A request that names ``when`` in its member ``field``."""
    api.http.post(NAMESPACES, {"name": "hr"})
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
    api: CatalogApi, operation: str, head: str
) -> None:
    path, body = asked(api, operation, {"head": head})
    before = dict(api.world.refs.rows)
    error = refused(api.http.post(path, body), 400, "InvalidRequest", f"{OPERATIONS[operation]}.head")
    assert error["remedy"] == "list the catalog's log"
    assert api.world.refs.rows == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_moment_is_one_member_and_a_snapshot_has_a_name(api: CatalogApi, operation: str) -> None:
    field = OPERATIONS[operation]
    for when in ({}, {"seq": 1, "head": "commit/a"}, {"head": "commit/a", "snapshot": "s"}):
        path, body = asked(api, operation, when)
        refused(api.http.post(path, body), 400, "InvalidRequest", field)
    for name in ("", "a/b", "x" * 256):
        path, body = asked(api, operation, {"snapshot": name})
        refused(api.http.post(path, body), 400, "InvalidRequest", f"{field}.snapshot")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_head_that_never_was_is_not_there(api: CatalogApi, operation: str) -> None:
    path, body = asked(api, operation, {"head": "commit/" + "0" * 32})
    refused(api.http.post(path, body), 404, "NoSuchCatalogCommit", f"{OPERATIONS[operation]}.head")


def test_a_head_may_be_written_as_the_log_has_it_or_without_its_prefix(api: CatalogApi) -> None:
    api.http.post(NAMESPACES, {"name": "hr"})
    head = api.http.get(CATALOG + "/log").json["commits"][0]["head"]
    for number, written in enumerate((head, head.removeprefix("commit/"))):
        made = api.http.post(CATALOG + "/snapshots", {"name": f"s{number}", "of": {"head": written}})
        assert (made.status, made.json["head"]) == (201, head), made.text


@pytest.mark.parametrize("head", NO_HEADS, ids=lambda head: f"{head[:12]}({len(head)})")
def test_i6_a_page_token_with_another_thing_than_a_head_is_refused(api: CatalogApi, head: str) -> None:
    """Tokens are checked, not signed: whoever knows how can write one."""
    token = seal(PageToken("main", head, "", "namespace", "", api.world.clock.now_ms()))
    answer = api.http.call("GET", NAMESPACES, query=f"page_token={quote(token)}")
    refused(answer, 400, "InvalidRequest", "page_token")

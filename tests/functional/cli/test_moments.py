"""Moments on the command line: in the service's words or shorter, wherever a command reads the
past."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.cli import run, service
from turnstile.catalog.history.core import parse_as_of
from turnstile_cli import names as moments
from turnstile_cli.errors import CliError

HEAD = "commit/" + "a" * 32
ENTRY = {"name": "main.default.t", "kind": "table", "id": "i", "created": 1_770_000_000_000, "format": "delta",
         "properties": {"b": "2", "a": "1"}, "version": 41, "head": HEAD}  # fmt: skip
NAMESPACE = {"name": "then", "comment": None, "properties": {}, "created": 1_770_000_000_000}


@pytest.mark.parametrize(
    ("given", "text", "body"),
    [
        (HEAD, f"head:{HEAD}", {"head": HEAD}),
        (f"head:{'a' * 32}", f"head:{'a' * 32}", {"head": HEAD}),
        ("41", "seq:41", {"seq": 41}),
        ("seq:41", "seq:41", {"seq": 41}),
        ("time:17", "time:17", {"time": 17}),
        ("time:2026-11-01T00:00:00Z", "time:2026-11-01T00:00:00Z", {"time": 1_793_491_200_000}),
        ("month_end", "snapshot:month_end", {"snapshot": "month_end"}),
        ("snapshot:41", "snapshot:41", {"snapshot": "41"}),
    ],
)
def test_a_moment_means_the_same_to_every_command_and_to_the_service(given: str, text: str, body: object) -> None:
    assert moments.moment_text(given) == text
    assert moments.moment_body(given) == body
    read = parse_as_of(text)
    assert {name: value for name in read.__struct_fields__ if (value := getattr(read, name)) is not None} == body


@pytest.mark.parametrize("given", ["time:yesterday", "time:2026-11-01", "seq:x", "moment:1", "snapshot:", "head:"])
def test_what_names_no_moment_is_a_usage_error(given: str) -> None:
    with pytest.raises(CliError) as refused:
        moments.moment_body(given)
    assert refused.value.exit == 2 and refused.value.remedy


def test_find_namespaces_and_describe_ask_as_of_a_moment_on_every_page() -> None:
    row = {name: ENTRY[name] for name in ("name", "kind", "id", "created", "format", "version")}
    first = {"found": [row], "head": HEAD, "next_page_token": "next"}
    listed = {"namespaces": [NAMESPACE], "head": HEAD}
    with service({
        "GET /v1/find?query=%2Fmain%2F%2A&as_of=snapshot%3As": (200, first),
        "GET /v1/find?query=%2Fmain%2F%2A&as_of=snapshot%3As&page_token=next": (200, {"found": [row], "head": HEAD}),
        "GET /v1/catalogs/main/namespaces": (200, listed),
        "GET /v1/catalogs/main/namespaces/default/tables/t/entry": (200, ENTRY),
    }) as canned:  # fmt: skip
        told = json.loads(run("find", "/main/*", "--as-of", "s", "--url", canned.url, "-o", "json").stdout)
        shown = run("find", "/main/*", "--as-of", "snapshot:s", "--url", canned.url).stdout
        assert "then" in run("namespaces", "--as-of", "seq:41", "--url", canned.url).stdout
        described = run(
            "describe", "default.t", "--as-of", "time:2026-11-01T00:00:00+01:00", "--url", canned.url
        ).stdout
        plain = json.loads(run("describe", "default.t", "--url", canned.url, "-o", "json").stdout)
        asked = [parse_qs(urlsplit(target).query).get("as_of") for _, target, _, _ in canned.seen]
    assert told["found"] == [row, row]
    assert "41" in shown
    assert all(word in described for word in ("main.default.t", "41", "a=1, b=2", HEAD))
    assert plain == ENTRY
    assert asked == [["snapshot:s"]] * 4 + [["seq:41"], ["time:2026-11-01T00:00:00+01:00"], None]


def test_a_moment_that_is_gone_ends_as_everything_that_is_not_there() -> None:
    error = {"type": "NoSuchCatalogCommit", "message": "catalog commit 'main at number 1' does not exist", "code": 404,
             "remedy": "list the catalog's log"}  # fmt: skip
    with service({"GET /v1/catalogs/main/namespaces": (404, {"error": error})}) as canned:
        ended = run("namespaces", "--as-of", "1", "--url", canned.url)
    assert ended.exit_code == 3
    assert "list the catalog's log" in ended.stderr

"""The Spark client's rules for names are the server's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.store.core.names import is_identifier
from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_http.http import Http
from turnstile_http.names import check_name, dotted_name
from turnstile_spark.names import is_path

NEAR = st.text(st.sampled_from("aZ9_@-./%\x1f `é\n"), max_size=5) | st.sampled_from(("a" * 255, "a" * 256, "..", ""))


@given(NEAR | st.text(max_size=8))
def test_client_and_server_have_the_same_names(name: str) -> None:
    if is_identifier(name):
        assert check_name(name, "table") == dotted_name([name]) == name
        return
    with pytest.raises(ApiError, match="is not a valid name"):
        check_name(name, "table")
    with pytest.raises(ApiError):
        dotted_name(["a", name])


@given(NEAR, NEAR)
def test_no_call_sends_a_text_that_is_no_name(namespace: str, table: str) -> None:
    """Every call that has names in it; there is no server."""
    http = Http("http://127.0.0.1:9", None, deadline=0.0)
    api = Api(http, "main")
    calls = (
        lambda: api.load(namespace, table),
        lambda: api.stage(namespace, table),
        lambda: api.register(namespace, table, "id"),
        lambda: api.rename("default", "t", namespace, table),
        lambda: api.rename(namespace, table, "default", "t"),
        lambda: api.drop(namespace, table),
    )
    are_names = all(is_identifier(level) for level in namespace.split(".")) and is_identifier(table)
    for call in calls:
        with pytest.raises(ApiError) as caught:
            call()
        assert caught.value.type == ("Unreachable" if are_names else "InvalidName")
    assert bool(http.requests) is are_names
    http.close()


@pytest.mark.parametrize(
    ("levels", "name", "path"),
    [
        (["delta"], "/a", True),
        (["DELTA"], "s3a://b/c", True),
        (["iceberg"], "file:/a", True),
        (["delta"], "a/b", False),
        (["delta"], "a", False),
        (["delta", "x"], "/a", False),
        (["parquet"], "/a", False),
        ([], "/a", False),
    ],
)
def test_delta_and_an_absolute_path_are_a_path(levels: list[str], name: str, path: bool) -> None:
    assert is_path(levels, name) is path

"""JSON bodies and query members: what is refused, and that the refusal names the member."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from turnstile.api.http.request import Query, Request, answering, decode
from turnstile.store.core.errors import InvalidRequest


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    size: int
    tags: list[str] = []


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    version: int | None
    inner: Inner | None = None
    names: dict[str, str] = {}


def refused(raw: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode(raw, Outer)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b'"text"', "body"),
        (b"\xff\xfe", "body"),
        (b"\xef\xbb\xbf{}", "body"),
        (b'{"version": NaN}', "body"),
        (b'{"version": 1} {"version": 2}', "body"),
        (b'{"version": 1, "names": {"a": "\xff"}}', "body"),
        (b'{"version": 1, "names": {"a": "\\ud800"}}', "body"),
        (b"[" * 100_000, "body"),
        (b'{"version": ' + b"[" * 100_000, "version"),
        (b'{"version": 1, "x": ' + b'{"a":' * 100_000, "x"),
        (b"{}", "version"),
        (b'{"version": "1"}', "version"),
        (b'{"version": 1.0}', "version"),
        (b'{"version": 1e400}', "version"),
        (b'{"version": true}', "version"),
        (b'{"version": 1, "vresion": 2}', "vresion"),
        (b'{"version": 1, "inner": {}}', "inner.size"),
        (b'{"version": 1, "inner": {"size": 1, "sise": 2}}', "inner.sise"),
        (b'{"version": 1, "inner": {"size": null}}', "inner.size"),
        (b'{"version": 1, "inner": {"size": 1, "tags": ["a", 2]}}', "inner.tags[1]"),
        (b'{"version": 1, "inner": []}', "inner"),
        (b'{"version": 1, "names": {"a": 5}}', "names[...]"),
    ],
)
def test_a_body_of_another_shape_is_refused_and_the_member_is_named(raw: bytes, field: str) -> None:
    assert refused(raw).field == field


def test_of_a_member_given_twice_the_last_counts() -> None:
    assert decode(b'{"version": 1, "version": 2}', Outer).version == 2


def test_null_is_a_value_where_the_api_says_so() -> None:
    assert decode(b'{"version": null}', Outer) == Outer(None)


def test_a_body_is_decoded_once_and_as_one_thing() -> None:
    decoded: list[bytes] = []

    def counting(raw: bytes, shape: type[Any]) -> Any:
        decoded.append(raw)
        return decode(raw, shape)

    request = Request("POST", "/", "/", {}, {}, b'{"version": 1}', "c")
    assert request.parse_as(Outer, counting) is request.parse_as(Outer, counting)
    assert len(decoded) == 1
    with pytest.raises(TypeError, match="Outer"):
        request.parse_as(Inner, counting)


def query(text: dict[str, list[str]], *allowed: str) -> Query:
    with answering(Request("GET", "/", "/", {}, text, b"", "c")):
        return Query(*allowed)


@pytest.mark.parametrize("value", ["-1", "11", "1.0", "1e3", "x", " 1", "١", "0x1", "9" * 5000, "+1", "1_0"])
def test_a_number_out_of_range_or_form_is_refused_and_named(value: str) -> None:
    with pytest.raises(InvalidRequest, match="between 0 and 10") as caught:
        query({"n": [value]}, "n").integer("n", most=10)
    assert caught.value.field == "n"
    assert len(caught.value.message) < 200


def test_query_members_are_read_with_their_types() -> None:
    found = query(
        {"n": ["10"], "yes": ["True"], "no": ["false"], "empty": [""], "t": ["x"]}, "n", "yes", "no", "empty", "t"
    )
    values: list[Any] = [
        found.integer("n", most=10),
        found.flag("yes"),
        found.flag("no", default=True),
        found.text("t"),
    ]
    assert values == [10, True, False, "x"]
    assert found.text("empty") is None
    assert found.integer("empty", 7) == found.integer("absent", 7) == 7
    assert found.flag("absent", default=True) is True


@pytest.mark.parametrize("text", [{"typo": ["1"]}, {"n": ["1", "2"]}])
def test_an_unknown_or_repeated_query_member_is_refused(text: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        query(text, "n")
    assert caught.value.field == next(iter(text))


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(InvalidRequest, match="true or false"):
        query({"f": ["1"]}, "f").flag("f")


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    inners: list[Inner]
    names: dict[str, str] = {}


def test_a_null_list_or_map_counts_as_left_out() -> None:
    expected = Listed([Inner(1), Inner(2, ["a"])])
    sent = b'{"names": null, "inners": [{"size": 1, "tags": null}, {"size": 2, "tags": ["a"]}]}'
    assert decode(sent, Listed) == expected


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b'{"inners": null}', "inners"),
        (b'{"inners": [null]}', "inners[0]"),
        (b'{"inners": [{"size": null, "tags": null}]}', "inners[0].size"),
        (b'{"inners": [{"size": 1, "tags": null, "sise": 1}]}', "inners[0].sise"),
        (b'{"inners": [], "names": {"a": null}}', "names[...]"),
        (b'{"inners": [' + b'{"size": 1, "tags": null},' * 50 + b'{"size": 1}]}', "inners[20].tags"),
    ],
)
def test_another_null_is_refused(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(raw, Listed)
    assert caught.value.field == field

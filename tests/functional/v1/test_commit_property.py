"""Generated requests, from nearly valid to garbage: never a 500, never a change without an
acknowledgement."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.functions import Answer, event
from tests.support.lake import ORDERS, UNKNOWN, Lake, make_lake
from turnstile.delta.commits import content_of
from turnstile.delta.core.head import tail_by_version

QUIET = settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))

INTS = st.one_of(st.integers(-2, 8), st.integers(), st.sampled_from([2**31, 2**53 - 1, 2**53, 2**63, 2**64, 10**40]))
SCALARS = st.one_of(
    st.none(), st.booleans(), INTS, st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=12,
)
TXNS = st.sampled_from(["a", "b", "c", "d", "é😀", "x" * 128])


NAMES = st.one_of(
    st.tuples(st.integers(0, 9), st.sampled_from(["u1", "../x", "a/b", "é", ""])).map(
        lambda p: f"{p[0]:020d}.{p[1]}.json"
    ),
    st.text(max_size=40),
)
TABLE_IDS = st.one_of(st.just(ORDERS), st.just(UNKNOWN), st.text(max_size=40))
QUERY = st.dictionaries(
    st.sampled_from(
        ["start", "end", "content", "txn_id", "name", "version", "table_id", "start_version", "end_version", "?"]
    ),
    st.one_of(INTS.map(str), TXNS, NAMES, st.just(ORDERS), st.sampled_from(["true", "false", ""])),
    max_size=3,
)
ROWS = st.integers(0, 5)


def spots(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(spot for key, child in inner for spot in spots(child, (*here, key)))]


@st.composite
def spoilt(draw: st.DrawFn, value: Any) -> Any:
    """``value`` with one thing in it replaced, removed or added."""
    value = json.loads(json.dumps(value))
    *way, last = draw(st.sampled_from(spots(value)[1:]))
    parent = value
    for key in way:
        parent = parent[key]
    match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
        case "remove":
            del parent[last]
        case "add" if isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = draw(JSON)
        case _:
            parent[last] = draw(JSON)
    return value


@st.composite
def actions(draw: st.DrawFn, lake: Lake, *, blind: bool) -> list[Any]:
    """A commit as an engine would write it for the table as it is."""
    ict = draw(st.sampled_from([lake.now() + 1, lake.now() + 1, lake.head.last_ict + 1, lake.head.last_ict]))
    found = [delta.info(draw(TXNS), ict, **draw(st.sampled_from([{}, {"readVersion": lake.head.latest}])))]
    if draw(st.booleans()):
        found.append({"txn": {"appId": draw(st.sampled_from(["s", "t"])), "version": 1}})
    rows = [draw(ROWS) for _ in range(draw(st.integers(0, 3)))]
    found += [delta.add(f"f{at}", count) for at, count in enumerate(rows)]
    if lake.head.row_hwm is not None and draw(st.sampled_from([True, True, True, False])):
        mark = json.dumps({"rowIdHighWaterMark": lake.head.row_hwm + sum(rows)})
        found.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}})
    if not blind:
        more = [
            delta.remove("f"),
            delta.metadata(owner="me"),
            delta.protocol(),
            delta.protocol("rowTracking"),
            {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
            {"cdc": {"path": "c"}},
        ]
        found += draw(st.lists(st.sampled_from(more), max_size=2, unique_by=lambda action: next(iter(action))))
    return found


@st.composite
def proposal(draw: st.DrawFn, lake: Lake) -> Any:
    """A commit request; half of them have something wrong in the content, in the request, or in
    both."""
    latest = lake.head.latest
    version = draw(st.sampled_from([latest + 1, latest + 1, latest + 1, latest, latest + 2, None, None]))
    written = draw(actions(lake, blind=version is None))
    if draw(st.sampled_from([False, False, True])):
        written = draw(spoilt(written))
    content = "".join(json.dumps(action) + "\n" for action in written)
    if draw(st.sampled_from([False] * 9 + [True])):
        content = content[: draw(st.integers(0, len(content)))]
    made: dict[str, Any] = {"version": version}
    if version is not None and draw(st.booleans()):
        made["staged"] = lake.stage(version, content.encode(), unique=str(lake.now()))
    else:
        made["inline"] = {"content": content}
    if version is None or draw(st.booleans()):
        made["base"] = draw(st.integers(0, latest))
    if draw(st.booleans()):
        made["etag"] = lake.head.metadata
    return draw(spoilt(made)) if draw(st.sampled_from([False, False, True])) else made


def answered(lake: Lake, made: dict[str, Any]) -> Answer:
    """The answer, after what holds of every answer was checked."""
    before = lake.state()
    answer = lake.http.send(made)
    assert answer.status != 500, (made, answer.text)
    assert answer.headers["content-type"] == "application/json"
    if answer.status >= 400:
        shape = answer.json if answer.text else {"error_code": "HEAD has no body"}
        assert "error_code" in shape or shape["error"]["code"] == answer.status
        assert lake.state()[0] == before[0], "a refused request changed a row"
        assert lake.state()[2] == before[2], "a refused request changed a file"
    return answer


def check_table(lake: Lake, acknowledged: dict[int, str]) -> None:
    """Every acknowledged version is there, once, in order, with its bytes, and everything can be
    published."""
    places = tail_by_version(lake.head)
    assert [place.version for place in places] == list(range(1, lake.head.latest + 1))  # I1
    assert [place.ict for place in places] == sorted({place.ict for place in places})  # I7
    assert {place.version: place.entry.txn for place in places} == acknowledged  # I2
    contents = {place.version: content_of(lake.world, lake.head, place) for place in places}
    lake.publish()
    assert lake.head.floor == lake.head.latest, lake.head.reason  # I11
    for version, content in contents.items():
        assert lake.file(f"_delta_log/{version:020d}.json") == content  # I4


@pytest.mark.slow
@QUIET
@given(st.data(), st.booleans())
def test_no_generated_proposal_is_a_500_or_harms_the_table(data: st.DataObject, tracked: bool) -> None:
    lake = make_lake(*(["rowTracking", "domainMetadata"] if tracked else []))
    acknowledged: dict[int, str] = {}
    for _ in range(8):
        made = data.draw(proposal(lake))
        answer = answered(lake, event("POST", f"/v1/tables/{ORDERS}/commits", json_body=made))
        if answer.status == 200:
            commit = answer.json["commit"]
            assert acknowledged.setdefault(commit["version"], commit["txn_id"]) == commit["txn_id"]
            shown = lake.http.get("/v1/catalogs/main/namespaces/sales/tables/orders")
            assert (shown.status, shown.json["latest"]) == (200, lake.head.latest), shown.text
    check_table(lake, acknowledged)


@pytest.mark.slow
@QUIET
@given(TABLE_IDS, JSON)
def test_no_garbage_as_a_proposal_is_a_500(table_id: str, body: Any) -> None:
    lake = make_lake()
    answered(lake, event("POST", f"/v1/tables/{table_id}/commits", json_body=body))
    content = {"version": 1, "inline": {"content": json.dumps(body) + "\n"}}
    answered(lake, event("POST", f"/v1/tables/{ORDERS}/commits", json_body=content))


@pytest.mark.slow
@QUIET
@given(st.sampled_from(["commits", "head", "outcome"]), TABLE_IDS, QUERY)
def test_no_generated_question_about_a_table_is_a_500(operation: str, table_id: str, query: dict[str, str]) -> None:
    lake = make_lake()
    lake.append(1, "a")
    answered(lake, event("GET", f"/v1/tables/{table_id}/{operation}", query=query))


@pytest.mark.slow
@QUIET
@given(
    st.one_of(JSON, st.fixed_dictionaries({"table_id": TABLE_IDS, "start_version": INTS, "end_version": INTS})), QUERY
)
def test_no_generated_question_of_unitys_preview_is_a_500(body: Any, query: dict[str, str]) -> None:
    lake = make_lake()
    lake.append(1, "a")
    path = "/api/2.1/unity-catalog/delta/preview/commits"
    answered(lake, event("GET", path, json_body=body, query=query))
    answered(lake, event("GET", path, query=query))


@pytest.mark.slow
@QUIET
@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "FROB"]),
    st.one_of(
        st.sampled_from(["/v1", "/v1/", "//v1", f"/v1/tables/{ORDERS}/commits", f"/v1/tables/{ORDERS}/head"]),
        st.lists(st.text(max_size=12), max_size=7).map(lambda parts: "/" + "/".join(parts)),
        st.lists(st.text(max_size=12), min_size=3, max_size=3).map(
            lambda parts: f"/v1/catalogs/{parts[0]}/namespaces/{parts[1]}/tables/{parts[2]}"
        ),
    ),
    st.text(max_size=60),
    st.dictionaries(st.sampled_from(["content-type", "authorization", "x-correlation-id", "Accept"]),
                    st.text(max_size=20)),
    st.one_of(st.none(), st.text(max_size=60), st.binary(max_size=60)),
)  # fmt: skip
def test_no_garbage_is_a_500(
    method: str, path: str, query: str, headers: dict[str, str], body: str | bytes | None
) -> None:
    lake = make_lake()
    encoded = isinstance(body, bytes)
    text = base64.b64encode(body).decode() if isinstance(body, bytes) else body
    answered(lake, event(method, path, query=query, headers=headers, body=text, base64_encoded=encoded))
    answered(lake, event(method, path, query=query, headers=headers, body=text, base64_encoded=not encoded))


@pytest.mark.slow
@QUIET
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "rawPath": JSON,
            "rawQueryString": JSON,
            "headers": st.one_of(st.none(), st.dictionaries(st.text(max_size=5), SCALARS, max_size=3)),
            "requestContext": st.fixed_dictionaries({},
                                                    optional={"http": st.dictionaries(st.just("method"), SCALARS),
                                                              "stage": SCALARS, "requestId": SCALARS}),
            "body": st.one_of(st.none(), st.text(max_size=20)),
            "isBase64Encoded": st.booleans(),
        },
    )
)  # fmt: skip
def test_no_odd_event_of_a_gateway_is_a_500(made: dict[str, Any]) -> None:
    answered(make_lake(), made)

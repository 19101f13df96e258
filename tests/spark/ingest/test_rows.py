"""Rows that were sent over HTTP, to tables of Spark's, as Spark reads them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import httpx
import pytest

COLUMNS = """id BIGINT NOT NULL, b TINYINT, s SMALLINT, i INT, f FLOAT, d DOUBLE, dec DECIMAL(38,10), ok BOOLEAN,
t STRING, bin BINARY, day DATE, at TIMESTAMP, naive TIMESTAMP_NTZ, l ARRAY<STRING>, m MAP<STRING, INT>,
st STRUCT<x: BIGINT, `y z`: ARRAY<DATE>>, p STRING"""
KEY = "0197c9a0-0000-7000-8000-000000000001"
OTHER_KEY = "0197c9a0-0000-7000-8000-000000000002"
DAY = dt.date(2026, 1, 31)
NAIVE = dt.datetime(2026, 1, 31, 10, 20, 30, 123_456)

KINDS = {
    "plain": ("", {}),
    "partitioned, mapped by name, tracked": (
        "PARTITIONED BY (p)",
        {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"},
    ),
    "partitioned by a date and a time, mapped by id": ("PARTITIONED BY (day, at)", {"delta.columnMapping.mode": "id"}),
}


QUICK = "partitioned, mapped by name, tracked"


def rows_to_send() -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    full = {
        "id": 2**53 + 1, "b": -128, "s": 32767, "i": -(2**31), "f": 0.5, "d": 1e300, "dec": "1.0000000001", "ok": True,
        "t": "grüezi\n\"'", "bin": base64.b64encode(b"\x00\xff").decode(), "day": "2026-01-31",
        "at": "2026-01-31T11:20:30.123456+01:00", "naive": "2026-01-31T10:20:30.123456", "l": ["x", None, ""],
        "m": {"k": 1, "n": None}, "st": {"x": 7, "y z": ["2026-01-31", None]}, "p": "a/b=c %",
    }  # fmt: skip
    return [full, {"id": 1}, {"id": 2, "d": "NaN", "f": "-Infinity", "l": [], "m": {}, "st": {}, "p": "other"}]


FULL = {
    "id": 2**53 + 1, "b": -128, "s": 32767, "i": -(2**31), "f": 0.5, "d": 1e300, "dec": Decimal("1.0000000001"),
    "ok": True, "t": "grüezi\n\"'", "bin": bytearray(b"\x00\xff"), "day": DAY, "naive": NAIVE, "l": ["x", None, ""],
    "m": {"k": 1, "n": None}, "st": {"x": 7, "y z": [DAY, None]}, "p": "a/b=c %",
}  # fmt: skip


@pytest.mark.slow
def test_i26_rows_that_do_not_fit_are_read_by_spark_in_the_table_beside(
    lake: Any, sql: Any, name: str, file_server: Any
) -> None:
    table = f"{lake.name}.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT NOT NULL)")
    headers = {"authorization": f"Bearer {file_server.token}"} if file_server.token else {}
    path = f"/v1/catalogs/main/namespaces/default/tables/{name.rpartition('.')[2]}/rows?on_error=quarantine"
    with httpx.Client(base_url=file_server.url, headers=headers, trust_env=False, timeout=60.0) as http:
        for rows in ([{"id": 1}, {"id": "x"}], [{"id": 2}, {"id": None}]):
            assert http.post(path, json=rows).json()["rejected"]["rows"] == 1
    assert sql.ids(table) == [1, 2]
    found = sql.values(f"SELECT place, column, row FROM {table}_rejected")
    assert found == [("row 2", "id", '{"id":"x"}'), ("row 2", "id", '{"id":null}')]
    sql(f"INSERT INTO {table} SELECT -1 FROM {table}_rejected WHERE problem LIKE '%no whole number'")
    sql(f"DELETE FROM {table}_rejected WHERE rejected_at <= current_timestamp()")
    assert (sql.ids(table), sql.values(f"SELECT * FROM {table}_rejected")) == ([-1, 1, 2], [])


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == QUICK else pytest.mark.slow) for kind in KINDS]
)
def test_i26_rows_of_all_types_that_were_sent_over_http_are_read_by_spark(
    lake: Any, sql: Any, name: str, file_server: Any, kind: str
) -> None:
    partitioned, properties = KINDS[kind]
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    with_properties = f"TBLPROPERTIES ({listed})" if listed else ""
    table = f"{lake.name}.{name}"
    columns = COLUMNS if listed else COLUMNS.replace("`y z`", "yz")
    sql(f"CREATE TABLE {table} ({columns}) {partitioned} {with_properties}")
    sql(f"INSERT INTO {table} (id, p) VALUES (0, 'spark')")
    rows = rows_to_send()
    if not listed:
        rows[0]["st"] = {"x": 7, "yz": ["2026-01-31", None]}
    headers = {"authorization": f"Bearer {file_server.token}"} if file_server.token else {}
    headers |= {"idempotency-key": KEY, "content-type": "application/json"}
    path = f"/v1/catalogs/main/namespaces/default/tables/{name.rpartition('.')[2]}/rows"
    with httpx.Client(base_url=file_server.url, headers=headers, trust_env=False, timeout=60.0) as http:
        answers = [http.post(path, content=json.dumps(rows)) for _ in range(2)]
        refused = http.post(path, content=json.dumps([{"t": "no id"}]), headers={"idempotency-key": OTHER_KEY})
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    assert [answer.json()["outcome"] for answer in answers] == ["added", "replayed"]
    assert answers[0].json()["version"] == answers[1].json()["version"]
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "InvalidRows")
    found = {row.id: row.asDict(recursive=True) for row in sql(f"SELECT * FROM {table}")}
    assert sorted(found) == [0, 1, 2, 2**53 + 1]
    full = found[2**53 + 1]
    full.pop("at")
    if not listed:
        full["st"]["y z"] = full["st"].pop("yz")
    assert full == FULL
    assert all(value is None for column, value in found[1].items() if column != "id")
    other = found[2]
    assert (str(other["d"]), other["f"], other["l"], other["m"]) == ("nan", float("-inf"), [], {})
    at = sql(f"SELECT unix_micros(at) AS at FROM {table} WHERE at = TIMESTAMP'2026-01-31 10:20:30.123456Z'")
    moment = NAIVE.replace(tzinfo=dt.UTC)
    assert [row.at for row in at] == [int(moment.timestamp()) * 1_000_000 + moment.microsecond]
    assert sql.ids(f"{table} WHERE day = DATE'2026-01-31' AND p = 'a/b=c %' AND st.x = 7") == [2**53 + 1]
    assert sql.ids(f"{table} WHERE p IS NULL") == [1]
    if "delta.enableRowTracking" in properties:
        ids = [row[0] for row in sql(f"SELECT _metadata.row_id FROM {table}")]
        assert sorted(ids) == [0, 1, 2, 3]
    sql(f"DELETE FROM {table} WHERE id = 1")
    assert sql.ids(table) == [0, 2, 2**53 + 1]

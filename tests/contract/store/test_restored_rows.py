"""Rows that point-in-time recovery brought back go into the stack's own tables, whose streams and
settings stay (I9, I10)."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from tests.support.repository import ROOT
from tests.support.store.backends import OBJS_TABLE, REFS_TABLE, Backend
from tests.support.store.rows import fresh_key

SCRIPT = ROOT / "infra" / "restore_rows.py"
_spec = importlib.util.spec_from_file_location("restore_rows", SCRIPT)
assert _spec is not None and _spec.loader is not None
module = importlib.util.module_from_spec(_spec)
sys.modules["restore_rows"] = module
_spec.loader.exec_module(module)

KEYS = {"refs": ("key",), "objs": ("space", "id")}


def row(kind: str, number: int, text: str = "x") -> dict[str, Any]:
    name = {"S": f"{number:05}"}
    return {**dict.fromkeys(KEYS[kind], name), "bytes": {"B": text.encode()}, "tail": {"L": [{"N": "1"}, {"S": text}]}}


@pytest.fixture(params=KEYS)
def pair(service: Backend, request: pytest.FixtureRequest) -> Any:
    """Two empty tables of one kind."""
    client = service.client
    kind = request.param
    name = fresh_key().rpartition("/")[2]
    made = []
    for which in ("from", "into"):
        table = f"{which}-{name}"
        client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in KEYS[kind]],
            KeySchema=[
                {"AttributeName": key, "KeyType": role}
                for key, role in zip(KEYS[kind], ("HASH", "RANGE"), strict=False)
            ],
        )
        made.append(module.Table(client, table))
    yield kind, *made
    for table in made:
        client.delete_table(TableName=table.name)


def held(table: Any) -> dict[str, Any]:
    return {module.name_of(table.key(found)): found for found in table.rows()}


def put(table: Any, rows: list[dict[str, Any]]) -> None:
    table.write([{"PutRequest": {"Item": one}} for one in rows])


def test_i9_a_table_gets_exactly_the_rows_of_the_restored_one(pair: Any) -> None:
    kind, source, target = pair
    put(source, [row(kind, number) for number in range(250)])
    put(target, [row(kind, number) for number in range(100)])
    put(target, [row(kind, number, "newer") for number in range(100, 130)])
    put(target, [row(kind, number) for number in range(900, 1040)])
    before = held(target)
    said = module.restore(source, target, keep=False, apply=False)
    assert (said.same, said.put, said.removed) == (100, 150, 140)
    assert held(target) == before, "nothing is written unasked"
    assert module.restore(source, target, keep=False, apply=True) == said
    assert held(target) == held(source)
    again = module.restore(source, target, keep=False, apply=True)
    assert (again.same, again.put, again.removed) == (250, 0, 0)


def test_i10_what_gc_has_removed_since_comes_back_beside_what_is_there(pair: Any) -> None:
    kind, source, target = pair
    put(source, [row(kind, number) for number in range(30)])
    put(target, [row(kind, number) for number in range(10, 40)])
    assert module.restore(source, target, keep=True, apply=True).put == 10
    assert set(held(target)) == {module.name_of(target.key(row(kind, number))) for number in range(40)}


class Stingy:
    """A client that does a third of each batch and leaves the rest to be asked for again."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.turned_away = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _some(self, wanted: list[Any]) -> tuple[list[Any], list[Any]]:
        many = len(wanted) // 3 + 1
        self.turned_away += len(wanted) - many
        return wanted[:many], wanted[many:]

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> Any:
        ((table, asked),) = RequestItems.items()
        now, later = self._some(asked["Keys"])
        answer = self._client.batch_get_item(RequestItems={table: asked | {"Keys": now}})
        return answer | {"UnprocessedKeys": {table: asked | {"Keys": later}} if later else {}}

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> Any:
        ((table, asked),) = RequestItems.items()
        now, later = self._some(asked)
        self._client.batch_write_item(RequestItems={table: now})
        return {"UnprocessedItems": {table: later} if later else {}}


def test_rows_that_a_throttled_batch_left_out_are_asked_for_again(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0))
    kind, source, target = pair
    put(source, [row(kind, number) for number in range(60)])
    put(target, [row(kind, number) for number in range(50, 90)])
    stingy = Stingy(target._client)
    source._client = target._client = stingy
    said = module.restore(source, target, keep=False, apply=True)
    assert (said.same, said.put, said.removed) == (10, 50, 30)
    assert stingy.turned_away > 0
    assert held(target) == held(source)


def test_the_command_says_what_it_would_do_and_refuses_tables_of_two_kinds(
    pair: Any, service: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url or "")
    kind, source, target = pair
    put(source, [row(kind, 1), row(kind, 2)])
    put(target, [row(kind, 2), row(kind, 3)])
    both = ["--from", source.name, "--into", target.name]
    for arguments, says in (
        ([], "1 rows are alike, 1 would be written, 1 would be removed"),
        (["--keep"], "1 would be written, 0 would be removed"),
        (["--apply"], "1 rows are alike, 1 written, 1 removed"),
        ([], "2 rows are alike, 0 would be written, 0 would be removed"),
    ):
        assert module.main([*both, *arguments]) == 0
        assert says in capsys.readouterr().out
    other = REFS_TABLE if kind == "objs" else OBJS_TABLE
    for target_name in (other, source.name):
        assert module.main(["--from", source.name, "--into", target_name, "--apply"]) == 2
        assert "not two tables of one kind" in capsys.readouterr().err

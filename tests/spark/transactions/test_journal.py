"""Announced transactions: other clients finish or undo the transaction of a client that died, and
every report is the outcome (I3, I8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import run
from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict, TurnstileError

DIES: str = """
    import os, sys
    import turnstile_spark

    url, token, when, a, b = sys.argv[1:]
    options = {"spark.sql.warehouse.dir": os.path.abspath("warehouse"),
               "spark.driver.extraJavaOptions": f"-Dderby.system.home={os.getcwd()}"}
    spark = turnstile_spark.session("dies", small=True, master="local[1]", options=options)
    lake = turnstile_spark.attach(spark, "lake", url, token=token or None)
    transact = lake.api.transact

    def dies(group):
        if when == "after":
            transact(group)
        os._exit(7)

    lake.api.transact = dies
    with lake.transaction(journal=True) as txn:
        print(txn.id, flush=True)
        spark.sql(f"UPDATE lake.{a} SET amount = amount - 30")
        spark.sql(f"UPDATE lake.{b} SET amount = amount + 30")
    print("not dead", flush=True)
"""
"""A client that is gone before or after it sent its group."""


@pytest.fixture
def accounts(lake: Any, sql: Any, name: str) -> tuple[str, str]:
    """Two tables with one amount each: 100 and 0."""
    tables = f"{name}_a", f"{name}_b"
    for table, amount in zip(tables, (100, 0), strict=True):
        sql(f"CREATE TABLE lake.{table} (amount BIGINT)")
        sql(f"INSERT INTO lake.{table} VALUES ({amount})")
    return tables


@pytest.fixture
def amounts(sql: Any, accounts: tuple[str, str]) -> Callable[[], list[int]]:
    return lambda: [sql(f"SELECT sum(amount) AS s FROM lake.{table}")[0].s for table in accounts]


@pytest.fixture
def turnstile(file_server: Any) -> Callable[..., Any]:
    """Runs ``turnstile transactions ...``."""

    def command(*arguments: str) -> Any:
        token = ("--token", file_server.token) if file_server.token else ()
        return run("transactions", *arguments, "--url", file_server.url, *token, "--output", "json")

    return command


@pytest.fixture
def dead(file_server: Any, accounts: tuple[str, str], tmp_path: Path) -> Callable[[str], str]:
    """Has a client of its own die in a transaction that moves 30; returns the transaction's id."""

    def die(when: str) -> str:
        arguments = [file_server.url, file_server.token or "", when, *accounts]
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DIES), *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 7, ended.stderr
        (id,) = ended.stdout.split()
        return id

    return die


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "state", "outcome"), [("before", "open", "ratified"), ("after", "committed", "replayed")]
)
def test_i3_i8_the_transaction_of_a_client_that_died_is_finished_by_its_id(
    dead: Any, turnstile: Any, amounts: Any, *, when: str, state: str, outcome: str
) -> None:
    id = dead(when)
    assert json.loads(turnstile("show", id).stdout)["state"] == state
    assert amounts() == ([100, 0] if state == "open" else [70, 30])
    assert (id in turnstile("list", "--state", "open").stdout) == (state == "open")
    assert json.loads(turnstile("resume", id).stdout)["outcome"] == outcome
    assert amounts() == [70, 30], "once, whenever it died"
    assert json.loads(turnstile("resume", id).stdout)["outcome"] == "replayed"
    refused = turnstile("abort", id)
    assert refused.exit_code == 4 and "TransactionCommitted" in refused.stderr
    assert amounts() == [70, 30]


@pytest.mark.slow
def test_i3_i8_the_transaction_of_a_client_that_died_is_undone_for_good(
    dead: Any, turnstile: Any, amounts: Any, sql: Any, accounts: tuple[str, str]
) -> None:
    id = dead("before")
    assert json.loads(turnstile("abort", id).stdout)["state"] == "aborted"
    assert json.loads(turnstile("abort", id).stdout)["state"] == "aborted"
    refused = turnstile("resume", id)
    assert refused.exit_code == 4, refused.stderr
    error = json.loads(refused.stderr)["error"]
    assert error["type"] == "TransactionAborted" and "aborted" in error["message"], "it says why"
    assert amounts() == [100, 0]
    sql(f"UPDATE lake.{accounts[0]} SET amount = amount + 1")
    assert amounts() == [101, 0], "the version that it wanted is another's"


@pytest.mark.slow
def test_i8_an_announced_transaction_is_committed_with_its_entry(
    lake: Any, sql: Any, accounts: tuple[str, str], amounts: Any
) -> None:
    a, b = accounts
    requests = {}
    for journal in (False, True):
        with lake.transaction(tables=accounts, journal=journal) as txn:
            sql(f"UPDATE lake.{a} SET amount = amount - 10")
            sql(f"UPDATE lake.{b} SET amount = amount + 10")
        requests[journal] = txn.summary().requests
    assert amounts() == [80, 20]
    assert requests[True] == requests[False] + 1, "the announcement"
    assert lake.api.entry(txn.id)["state"] == "committed"
    assert txn.id not in {open.id for open in lake.transactions()}
    assert txn.id in {transaction.id for transaction in lake.transactions("committed")}


def test_i8_i9_changes_of_the_catalog_are_announced_and_may_be_finished_by_others(
    lake: Any, sql: Any, accounts: tuple[str, str], monkeypatch: pytest.MonkeyPatch, turnstile: Any
) -> None:
    a = accounts[0]
    space = f"{accounts[0].replace('.', '_')}_journal"
    transact = lake.api.transact
    resumed = []

    def resumed_first(group: dict[str, Any]) -> Any:
        resumed.append(json.loads(turnstile("resume", group["id"]).stdout))
        return transact(group)

    monkeypatch.setattr(lake.api, "transact", resumed_first)
    with lake.transaction("serializable", journal=True) as txn:
        sql(f"CREATE NAMESPACE lake.{space}")
        sql(f"CREATE TABLE lake.{space}.c AS SELECT amount FROM lake.{a}")
        sql(f"INSERT INTO lake.{a} VALUES (1)")
    assert (txn.state, resumed[0]["outcome"]) == ("committed", "applied")
    assert lake.api.entry(txn.id)["catalog"] == lake.api.catalog
    assert [row.amount for row in sql(f"SELECT * FROM lake.{space}.c")] == [100]
    monkeypatch.undo()
    with (
        pytest.raises(TransactionConflict, match="has a journal and creates tables"),
        lake.transaction(journal=True) as txn,
    ):
        sql(f"CREATE TABLE lake.{space}.d AS SELECT 1 AS x")
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (10)"))
    assert lake.api.entry(txn.id)["state"] == "aborted"


@pytest.fixture
def settled_before(lake: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Another client resumes (or aborts) a transaction just before its client sends it."""

    def settle(how: str) -> None:
        transact = lake.api.transact

        def settled_first(group: dict[str, Any]) -> Any:
            (transaction,) = (each for each in lake.transactions() if each.id == group["id"])
            assert getattr(transaction, how)().state == {"abort": "aborted", "resume": "committed"}[how]
            return transact(group)

        monkeypatch.setattr(lake.api, "transact", settled_first)

    return settle


def test_i3_a_client_that_was_thought_dead_learns_that_it_was_undone(
    lake: Any, sql: Any, accounts: tuple[str, str], amounts: Any, settled_before: Callable[[str], None]
) -> None:
    a, b = accounts
    settled_before("abort")
    with pytest.raises(TurnstileError, match="was aborted") as caught, lake.transaction(journal=True) as txn:
        sql(f"UPDATE lake.{a} SET amount = 0")
        sql(f"UPDATE lake.{b} SET amount = 100")
    assert (caught.value.condition, txn.state) == ("TURNSTILE_REFUSED", "aborted")
    assert amounts() == [100, 0]


def test_i3_a_client_that_was_thought_dead_learns_that_it_was_finished(
    lake: Any, sql: Any, accounts: tuple[str, str], amounts: Any, settled_before: Callable[[str], None]
) -> None:
    a, b = accounts
    settled_before("resume")
    with lake.transaction(journal=True) as txn:
        sql(f"UPDATE lake.{a} SET amount = amount - 40")
        sql(f"UPDATE lake.{b} SET amount = amount + 40")
    assert (txn.state, amounts()) == ("committed", [60, 40])


@pytest.mark.slow
def test_i8_an_announced_transaction_is_put_on_top_of_others_as_a_later_attempt(
    lake: Any, sql: Any, accounts: tuple[str, str], amounts: Any
) -> None:
    a, b = accounts
    with lake.transaction(journal=True) as txn:
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        sql(f"INSERT INTO lake.{b} VALUES (2)")
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (10)"))
    entry = lake.api.entry(txn.id)
    assert (entry["state"], entry["attempt"]) == ("committed", 2)
    assert amounts() == [111, 2]


@pytest.mark.slow
def test_i3_an_announced_transaction_that_lost_is_aborted(
    lake: Any, sql: Any, accounts: tuple[str, str], amounts: Any
) -> None:
    """No other client finishes a transaction that its user runs again."""
    a, b = accounts
    with pytest.raises(TransactionConflict), lake.transaction(journal=True) as txn:
        sql(f"UPDATE lake.{a} SET amount = amount + 1")
        sql(f"INSERT INTO lake.{b} VALUES (2)")
        elsewhere(lambda: sql(f"UPDATE lake.{a} SET amount = 7"))
    assert (txn.state, lake.api.entry(txn.id)["state"]) == ("conflict", "aborted")
    assert amounts() == [7, 0]


@pytest.mark.parametrize(
    "inline_limit", [pytest.param(0, id="staged"), pytest.param(24 * 1024, id="inline", marks=pytest.mark.slow)]
)
def test_every_commit_of_a_transaction_names_all_of_its_tables_where_that_is_asked_for(
    lake: Any, sql: Any, *, accounts: tuple[str, str], log_of: Any, monkeypatch: pytest.MonkeyPatch, inline_limit: int
) -> None:
    """The action is kept through ratification and publication, of staged and of inline commits, and
    Delta reads and writes the tables as before."""
    a, b = accounts
    monkeypatch.setattr(lake.context, "inline_limit", inline_limit)
    with lake.transaction(group_action=True, journal=True) as txn:
        sql(f"INSERT INTO lake.{a} VALUES (1)")
        sql(f"INSERT INTO lake.{b} VALUES (2)")
        elsewhere(lambda: sql(f"INSERT INTO lake.{a} VALUES (10)"))  # it is put on top of this: another version
    latest = {a: 3, b: 2}
    versions = {lake.table(table).id: version for table, version in latest.items()}
    for table, version in latest.items():
        lake.table(table).publish()
        lines = (log_of(table) / f"{version:020d}.json").read_text().splitlines()
        (action,) = (json.loads(line)["transactionGroup"] for line in lines if '"transactionGroup"' in line)
        assert action["transactionId"] == txn.id
        assert {p["tableId"]: p["version"] for p in action["participants"]} == versions
    sql(f"ALTER TABLE lake.{a} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    sql(f"INSERT INTO lake.{a} VALUES (100)")
    assert lake.table(a).history()[0].operation == "WRITE"
    assert sql(f"SELECT count(*) AS n FROM lake.{a} VERSION AS OF {latest[a]}")[0].n == latest[a]
    with lake.transaction() as later:
        sql(f"DELETE FROM lake.{a} WHERE amount = 1")
        elsewhere(lambda: _grouped(lake, sql, accounts))
    assert later.state == "committed", "it was put on top of a commit with the action"


def _grouped(lake: Any, sql: Any, tables: tuple[str, str]) -> None:
    with lake.transaction(group_action=True):
        for table in tables:
            sql(f"INSERT INTO lake.{table} VALUES (1000)")

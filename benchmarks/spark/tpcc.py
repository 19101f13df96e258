"""Transactions over nine tables in Spark SQL, as in TPC-C: ``python -m benchmarks.spark.tpcc``.

One warehouse with its ten districts, so that terminals meet, and the five transactions in TPC-C's
mix: new order (45 %), payment (43), order status, delivery and stock level (4 each). Not TPC-C
itself: no think times, no screens, a delivery is one transaction over all districts, names are
numbers, and 1 % of the new orders name no item that exists and are given up.

Every transaction is a function of plain Spark SQL that ``lake.retry`` runs under snapshot
isolation, under which TPC-C is serializable (Fekete et al., 2005). Terminals are threads of one
Spark application. Tables of rows that are updated one by one are partitioned by district, as a
database would lock them by row, and without deletion vectors: their files are small. After each
heat TPC-C's conditions of consistency (3.3.2.1 to 3.3.2.4) are checked, and that every acknowledged
payment is in the history once.

LakeVilla's paper (Table 4) has 3.49 to 3.67 transactions a minute with one client and 2.79 to 2.81
with sixteen, on S3 with 48 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import turnstile_spark
from turnstile_server import Server

DISTRICTS: Final = 10
MIX: Final = {"new order": 45, "payment": 43, "order status": 4, "delivery": 4, "stock level": 4}

TABLES: Final = {
    "warehouse": "w_id INT, w_tax DOUBLE, w_ytd DECIMAL(12, 2)",
    "district": "d_id INT, d_tax DOUBLE, d_ytd DECIMAL(12, 2), d_next_o_id INT",
    "customer": "c_d_id INT, c_id INT, c_discount DOUBLE, c_balance DECIMAL(12, 2), c_payments INT, c_deliveries INT",
    "history": "h_id STRING, h_d_id INT, h_c_id INT, h_amount DECIMAL(12, 2)",
    "orders": "o_d_id INT, o_id INT, o_c_id INT, o_carrier INT, o_lines INT, o_entry TIMESTAMP",
    "new_order": "no_d_id INT, no_o_id INT",
    "order_line": "ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_amount DECIMAL(12, 2), ol_delivery "
    "TIMESTAMP",
    "item": "i_id INT, i_price DECIMAL(5, 2)",
    "stock": "s_i_id INT, s_quantity INT, s_ytd INT, s_orders INT",
}
PARTITIONS: Final = {
    "district": "d_id",
    "customer": "c_d_id",
    "orders": "o_d_id",
    "new_order": "no_d_id",
    "order_line": "ol_d_id",
}


class NoSuchItem(Exception):
    """A new order names an item that does not exist: TPC-C wants it given up."""


@dataclass
class Terminal:
    """One client, and what it did: ``ms`` by transaction, acknowledged payments, runs that had to
    be repeated."""

    spark: Any
    lake: Any
    customers: int
    items: int
    random: random.Random
    fair_after: int | None
    ms: dict[str, list[float]] = field(default_factory=dict)
    payments: list[str] = field(default_factory=list)
    given_up: int = 0
    runs: int = 0
    refused: Counter = field(default_factory=Counter)

    def work(self, until_s: float) -> None:
        names, weights = zip(*MIX.items(), strict=True)
        while time.monotonic() < until_s:
            self.one(self.random.choices(names, weights)[0])

    def one(self, name: str) -> None:
        """Runs one transaction until it is committed, or has lost as often as ``lake.retry``
        allows."""
        self._acknowledged = lambda: None
        transaction: Callable[[Any], None] = getattr(self, name.replace(" ", "_"))()
        began_s = time.monotonic()

        def run(txn: Any) -> None:
            self.runs += 1
            transaction(txn)

        try:
            self.lake.retry(run, attempts=20, fair_after=self.fair_after)
        except NoSuchItem:
            self.given_up += 1
            return
        except turnstile_spark.TransactionConflict as error:
            self.refused[name] += 1
            print(f"    {name} lost 20 times: {error}", flush=True)
            return
        self._acknowledged()
        self.ms.setdefault(name, []).append((time.monotonic() - began_s) * 1000)

    def sql(self, text: str) -> Any:
        return self.spark.sql(text)

    def _who(self) -> tuple[int, int]:
        return self.random.randint(1, DISTRICTS), self.random.randint(1, self.customers)

    # Each returns the function that is run, and run again after a conflict, with the same input.

    def new_order(self) -> Callable[[Any], None]:
        district, customer = self._who()
        lines = self.random.randint(5, 15)
        wanted = dict.fromkeys(self.random.sample(range(1, self.items + 1), lines))
        pieces = {item: self.random.randint(1, 10) for item in wanted}
        if self.random.random() < 0.01:
            pieces[self.items + 1] = 1

        def run(_txn: Any) -> None:
            row = self.sql(
                "SELECT w_tax, d_tax, d_next_o_id, c_discount FROM lake.tpcc.warehouse, lake.tpcc.district, "
                "lake.tpcc.customer "
                f"WHERE w_id = 1 AND d_id = {district} AND c_d_id = {district} AND c_id = {customer}"
            ).first()
            order = row.d_next_o_id
            listed = ", ".join(map(str, pieces))
            prices = {
                r.i_id: r.i_price for r in self.sql(f"SELECT * FROM lake.tpcc.item WHERE i_id IN ({listed})").collect()
            }
            if len(prices) < len(pieces):
                raise NoSuchItem
            self.sql(f"UPDATE lake.tpcc.district SET d_next_o_id = {order + 1} WHERE d_id = {district}")
            self.sql(
                f"INSERT INTO lake.tpcc.orders VALUES ({district}, {order}, {customer}, NULL, {len(pieces)}, "
                f"current_timestamp())"
            )
            self.sql(f"INSERT INTO lake.tpcc.new_order VALUES ({district}, {order})")
            values = ", ".join(f"({item}, {count})" for item, count in pieces.items())
            self.sql(
                f"MERGE INTO lake.tpcc.stock USING (VALUES {values} AS v(item, pieces)) ON s_i_id = item "
                f"AND s_i_id IN ({listed}) WHEN MATCHED THEN UPDATE SET "
                "s_quantity = s_quantity - pieces + IF(s_quantity - pieces >= 10, 0, 91), s_ytd = s_ytd + pieces, "
                "s_orders = s_orders + 1"
            )
            rows = ", ".join(
                f"({district}, {order}, {number}, {item}, {prices[item] * count}, NULL)"
                for number, (item, count) in enumerate(pieces.items(), 1)
            )
            self.sql(f"INSERT INTO lake.tpcc.order_line VALUES {rows}")

        return run

    def payment(self) -> Callable[[Any], None]:
        district, customer = self._who()
        amount = f"{self.random.uniform(1, 5000):.2f}"
        id = f"{self.random.getrandbits(128):032x}"

        def run(txn: Any) -> None:
            # By the transaction: when it loses, only the statements that are concerned run again.
            txn.sql(f"UPDATE lake.tpcc.warehouse SET w_ytd = w_ytd + {amount} WHERE w_id = 1")
            txn.sql(f"UPDATE lake.tpcc.district SET d_ytd = d_ytd + {amount} WHERE d_id = {district}")
            txn.sql(
                f"UPDATE lake.tpcc.customer SET c_balance = c_balance - {amount}, c_payments = c_payments + 1 "
                f"WHERE c_d_id = {district} AND c_id = {customer}"
            )
            txn.sql(f"INSERT INTO lake.tpcc.history VALUES ('{id}', {district}, {customer}, {amount})")

        self._acknowledged = lambda: self.payments.append(id)
        return run

    def order_status(self) -> Callable[[Any], None]:
        district, customer = self._who()

        def run(_txn: Any) -> None:
            self.sql(
                f"SELECT c_balance FROM lake.tpcc.customer WHERE c_d_id = {district} AND c_id = {customer}"
            ).first()
            order = self.sql(
                f"SELECT max(o_id) AS id FROM lake.tpcc.orders WHERE o_d_id = {district} AND o_c_id = {customer}"
            ).first()
            if order.id is not None:
                self.sql(
                    f"SELECT * FROM lake.tpcc.order_line WHERE ol_d_id = {district} AND ol_o_id = {order.id}"
                ).collect()

        return run

    def delivery(self) -> Callable[[Any], None]:
        carrier = self.random.randint(1, 10)

        def run(_txn: Any) -> None:
            oldest = self.sql(
                "SELECT no_d_id AS d, min(no_o_id) AS o FROM lake.tpcc.new_order GROUP BY no_d_id"
            ).collect()
            if not oldest:
                return
            pairs = ", ".join(f"({row.d}, {row.o})" for row in oldest)
            self.sql(f"DELETE FROM lake.tpcc.new_order WHERE (no_d_id, no_o_id) IN ({pairs})")
            self.sql(f"UPDATE lake.tpcc.orders SET o_carrier = {carrier} WHERE (o_d_id, o_id) IN ({pairs})")
            self.sql(
                f"UPDATE lake.tpcc.order_line SET ol_delivery = current_timestamp() WHERE (ol_d_id, ol_o_id) IN "
                f"({pairs})"
            )
            self.sql(
                "MERGE INTO lake.tpcc.customer USING (SELECT o_d_id, o_c_id, sum(ol_amount) AS amount FROM "
                "lake.tpcc.orders, "
                f"lake.tpcc.order_line WHERE ol_d_id = o_d_id AND ol_o_id = o_id AND (o_d_id, o_id) IN ({pairs}) "
                "GROUP BY o_d_id, o_c_id) ON c_d_id = o_d_id AND c_id = o_c_id WHEN MATCHED THEN UPDATE SET "
                "c_balance = c_balance + amount, c_deliveries = c_deliveries + 1"
            )

        return run

    def stock_level(self) -> Callable[[Any], None]:
        district = self.random.randint(1, DISTRICTS)
        level = self.random.randint(10, 20)

        def run(_txn: Any) -> None:
            following = self.sql(f"SELECT d_next_o_id AS o FROM lake.tpcc.district WHERE d_id = {district}").first().o
            self.sql(
                "SELECT count(DISTINCT s_i_id) FROM lake.tpcc.order_line, lake.tpcc.stock WHERE ol_i_id = s_i_id "
                f"AND ol_d_id = {district} AND ol_o_id BETWEEN {following - 20} AND {following - 1} AND s_quantity < "
                f"{level}"
            ).first()

        return run


def load(spark: Any, customers: int, items: int) -> None:
    """Creates and fills the tables: each district with as many orders as customers, a third of them
    not delivered."""
    spark.sql("CREATE NAMESPACE lake.tpcc")
    for table, columns in TABLES.items():
        partitioned = f"PARTITIONED BY ({PARTITIONS[table]})" if table in PARTITIONS else ""
        spark.sql(
            f"CREATE TABLE lake.tpcc.{table} ({columns}) {partitioned} TBLPROPERTIES ('delta.enableDeletionVectors' = "
            f"'false')"
        )
    spark.sql("INSERT INTO lake.tpcc.warehouse VALUES (1, 0.1, 0.00)")
    spark.sql(f"INSERT INTO lake.tpcc.district SELECT INT(id), 0.1, 0, {customers + 1} FROM range(1, {DISTRICTS + 1})")
    both = f"(SELECT INT(d.id) AS d, INT(c.id) AS c FROM range(1, {DISTRICTS + 1}) d, range(1, {customers + 1}) c)"
    spark.sql(f"INSERT INTO lake.tpcc.customer SELECT d, c, 0.05, -10, 1, 0 FROM {both}")
    spark.sql(f"INSERT INTO lake.tpcc.item SELECT INT(id), 1 + id % 99 FROM range(1, {items + 1})")
    spark.sql(f"INSERT INTO lake.tpcc.stock SELECT INT(id), 10 + INT(id % 91), 0, 0 FROM range(1, {items + 1})")
    spark.sql(f"INSERT INTO lake.tpcc.orders SELECT d, c, c, NULL, 5, current_timestamp() FROM {both}")
    spark.sql(f"INSERT INTO lake.tpcc.new_order SELECT d, c FROM {both} WHERE c > {customers * 2 // 3}")
    spark.sql(
        f"INSERT INTO lake.tpcc.order_line SELECT d, c, INT(l.id), INT(1 + (c * 7 + l.id) % {items}), 1.00, NULL "
        f"FROM {both}, range(1, 6) l"
    )


def check(spark: Any, payments: list[str]) -> None:
    """TPC-C's conditions of consistency 1 to 4 in one snapshot, and every acknowledged payment
    once. Raises AssertionError."""
    wrong = {
        "w_ytd is the sum of d_ytd": "SELECT 1 FROM (SELECT sum(d_ytd) AS s FROM lake.tpcc.district), "
        "lake.tpcc.warehouse WHERE s <> w_ytd",
        "w_ytd is the sum of payments": "SELECT 1 FROM (SELECT coalesce(sum(h_amount), 0) AS s FROM "
        "lake.tpcc.history), "
        "lake.tpcc.warehouse WHERE s <> w_ytd",
        "d_next_o_id follows the last order": "SELECT 1 FROM lake.tpcc.district JOIN (SELECT o_d_id, max(o_id) AS m, "
        "count(*) AS n FROM "
        "lake.tpcc.orders GROUP BY o_d_id) ON d_id = o_d_id WHERE d_next_o_id <> m + 1 OR n <> m",
        "new orders have no gaps": "SELECT 1 FROM lake.tpcc.new_order GROUP BY no_d_id HAVING max(no_o_id) - "
        "min(no_o_id) + 1 <> count(*)",
        "orders have their lines": "SELECT 1 FROM (SELECT o_d_id AS d, sum(o_lines) AS n FROM lake.tpcc.orders GROUP "
        "BY o_d_id) FULL JOIN "
        "(SELECT ol_d_id AS d, count(*) AS m FROM lake.tpcc.order_line GROUP BY ol_d_id) USING (d) WHERE NOT n <=> m",
    }
    for condition, query in wrong.items():
        assert not spark.sql(query).take(1), condition
    ids = [row.h_id for row in spark.sql("SELECT h_id FROM lake.tpcc.history").collect()]
    assert sorted(ids) == sorted(payments), "payments in the history are those that were acknowledged, once"


def heat(  # noqa: PLR0917 - what one heat is made of
    spark: Any, lake: Any, terminals: int, seconds: float, customers: int, items: int, seed: int, fair_after: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Runs the mix by so many terminals for so long; returns figures and the acknowledged
    payments."""
    clients = [
        Terminal(spark, lake, customers, items, random.Random(f"{seed} {terminals} {number}"), fair_after)
        for number in range(terminals)
    ]
    began_s = time.monotonic()
    threads = [threading.Thread(target=client.work, args=(began_s + seconds,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    minutes = (time.monotonic() - began_s) / 60
    ms = {name: sorted(value for client in clients for value in client.ms.get(name, ())) for name in MIX}
    done = sum(map(len, ms.values()))
    figures = {
        "terminals": terminals,
        "fair_after": fair_after,
        "minutes": round(minutes, 2),
        "committed": done,
        "a_minute": round(done / minutes, 1),
        "runs_a_transaction": round(sum(client.runs for client in clients) / max(1, done), 2),
        "lost": dict(sum((client.refused for client in clients), Counter())),
        "given_up": sum(client.given_up for client in clients),
        "p50_ms": {name: round(values[len(values) // 2]) for name, values in ms.items() if values},
        "p99_ms": {name: round(values[int(len(values) * 0.99)]) for name, values in ms.items() if values},
        "load": round(os.getloadavg()[0], 1),
    }
    return figures, [id for client in clients for id in client.payments]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terminals", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--seconds", type=float, default=300, help="of each heat")
    parser.add_argument("--customers", type=int, default=3000, help="of each district")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--fair-after", type=int, help="runs that lost until one reserves its tables (never)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server.start(Path(folder) / "home", 0) as server:
        # Statements of some rows: compiling a query takes longer than interpreting it, and planning
        # it anew between its stages too.
        options_of_spark = {
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
        }
        spark = turnstile_spark.session("tpcc", small=True, options=options_of_spark)
        spark.sparkContext.setLogLevel("ERROR")
        lake = turnstile_spark.attach(spark, "lake", server.url)
        print("loading", flush=True)
        load(spark, options.customers, options.items)
        payments: list[str] = []
        for terminals in options.terminals:
            print(f"{terminals} terminals, {options.seconds:.0f} s", flush=True)
            figures, more = heat(
                spark,
                lake,
                terminals,
                options.seconds,
                options.customers,
                options.items,
                options.seed,
                options.fair_after,
            )
            payments += more
            check(spark, payments)
            figures["consistent"] = True
            print(json.dumps(figures), flush=True)
            if options.out:
                with options.out.open("a") as out:
                    out.write(json.dumps(figures) + "\n")
        spark.stop()


if __name__ == "__main__":
    main()

"""The snippets of docs/transactions.md run and have the results that the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.repository import snippets

pytestmark = pytest.mark.slow  # a whole page


def test_i8_the_blocks_of_the_page_run_in_their_order(lake: Any, sql: Any, spark: Any, tmp_path: Path) -> None:
    names = {"spark": spark, "lake": lake, "checkpoint": str(tmp_path / "checkpoint")}
    blocks = [s for s in snippets() if s.page == "docs/transactions.md" and s.language == "python"]
    for block in blocks:
        exec(compile(block.code, block.id, "exec"), names)
    assert len(blocks) == 12
    assert sql.values("SELECT item, sum(pieces) FROM lake.shop.orders WHERE item > 'a' GROUP BY item") == [
        ("rice", 1),
        ("tea", 5),
    ]
    assert sql.values("SELECT item, sum(pieces) FROM lake.shop.stock WHERE item <> 'all' GROUP BY item") == [
        ("rice", 20),
        ("tea", 17),
    ]
    assert sql("SELECT * FROM lake.shop.basket") == []
    assert sql("SELECT count(*) AS n FROM lake.shop.stock WHERE item = 'all'")[0].n == 3
    operations = [lake.table(f"shop.{table}").history(1)[0].operation for table in ("orders", "stock")]
    assert operations == ["WRITE", "CREATE TABLE AS SELECT"]

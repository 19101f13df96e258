"""No two pages make a table of one name with other columns, and none replaces a table that another
page makes: a reader tries both."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

PAGES: Final = (
    *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/how-to").glob("*.md")), ROOT / "README.md",
    ROOT / "spark_client/README.md", ROOT / "python_client/README.md", ROOT / "console/src/screens/connect.tsx",
)  # fmt: skip
LISTS: Final = {"statements.md", "compatibility.md", "isolation.md"}
"""Tables of statements, each run by a test in a catalog of its own."""
BLOCK: Final = re.compile(r"```[a-z]*\n(.*?)```|`\n?(from .*?)`", re.DOTALL)
LOOP: Final = re.compile(r"for (\w+) in \(([^)]*)\):\n((?:    .*\n?)+)")
MADE: Final = re.compile(
    r"CREATE (OR REPLACE )?TABLE (?:IF NOT EXISTS "
    r")?(?:lake|main)\.([\w.]+)\s*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|[^(]*AS )"
)
CREATED: Final = re.compile(r'lake\.create\("([\w.]+)"')
FIELDS: Final = re.compile(r'\("(\w+)", pa\.(\w+)')


def unrolled(block: str) -> str:
    """The block with its loops over names written out."""

    def repeat(loop: re.Match[str]) -> str:
        names = re.findall(r'"([^"]+)"', loop[2])
        return "".join(loop[3].replace("{" + loop[1] + "}", name) for name in names)

    return LOOP.sub(repeat, block)


def tables(page: Path) -> list[tuple[str, str, bool]]:
    """Name and columns of each table that the code of a page makes, and whether it replaces one."""
    found = []
    for block in (unrolled(one or other) for one, other in BLOCK.findall(page.read_text())):
        for replaces, name, columns in MADE.findall(block):
            found.append((name.lower(), " ".join(columns.lower().split()), bool(replaces)))
        fields = ", ".join(f"{name} {kind}" for name, kind in FIELDS.findall(block))
        found += [(name.lower(), fields, False) for name in CREATED.findall(block)]
    return found


def test_no_two_pages_make_one_table_with_other_columns() -> None:
    made = defaultdict[str, list[tuple[str, str, bool]]](list)
    for page in PAGES:
        if page.name not in LISTS:
            for name, columns, replaces in tables(page):
                made[name].append((str(page.relative_to(ROOT)), columns, replaces))
    assert len(made) >= 8, "what pages make is found"
    collisions = [
        (name, one, other)
        for name, each in made.items()
        for one, other in itertools.combinations(each, 2)
        if one[0] != other[0] and (one[1] != other[1] or one[2] or other[2])
    ]
    assert not collisions


def test_loops_and_all_ways_of_making_a_table_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '```python\nfor table in ("a", "b"):\n    spark.sql(f"CREATE OR REPLACE TABLE lake.x.{table} (i INT)")\n```\n'
        '```python\nschema = pa.schema([("id", pa.int64())])\nlake.create("x.c", schema)\n'
        'spark.sql("CREATE TABLE lake.x.d AS SELECT 1")\n```\n'
    )
    assert tables(page) == [
        ("x.a", "i int", True),
        ("x.b", "i int", True),
        ("x.d", "", False),
        ("x.c", "id int64", False),
    ]

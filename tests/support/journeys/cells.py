"""The content of each cell of the matrix. ``docs/clients.md`` shows what it comes to
(tests/repository/test_docs_journeys.py)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final

import msgspec

BEGIN: Final = "<!-- journeys: made by tests/support/journeys/cells.py -->"
END: Final = "<!-- journeys: end -->"

ORIGINS: Final = {
    "spark_sql": "Spark, `CREATE TABLE` and `INSERT`",
    "spark_dataframe": "Spark, `saveAsTable`",
    "unity": "Unity's API, as Delta's client calls it",
    "v1": "`/v1`",
    "client": "`turnstile_client.create`",
    "imported": "import of a path table",
    "external": "Unity's API, an external table",
    "clone": "clone of a namespace",
    "iceberg": "Iceberg REST (PyIceberg)",
}
USES: Final = {
    "spark_reads": "Spark reads",
    "spark_writes": "Spark writes: INSERT, UPDATE, DELETE",
    "spark_optimizes": "`lake.table(...).optimize()`",
    "client_reads": "`turnstile_client` reads",
    "client_appends": "`turnstile_client` appends",
    "client_optimizes": "`turnstile_client` optimizes",
    "rows_added": "rows over HTTP",
    "rows_set_aside": "the same, `on_error=quarantine`",
    "expected": "an expectation of each commit",
    "java_reads": "Delta's Java kernel reads",
    "java_appends": "Delta's Java client appends",
    "duckdb_reads": "DuckDB (`unity_catalog`) reads",
    "pyiceberg_reads": "PyIceberg reads",
    "planned": "`plan`",
    "sampled": "`sample`",
    "found": "`find`",
    "maintained": "maintenance: what is due",
    "verified": "`verify`",
    "transaction": "a transaction with another table",
    "branched": "a branch, promoted",
    "agent_writes": "`turnstile mcp`: a program's row, promoted",
    "renamed": "rename, drop",
    "undropped": "`undrop`",
    "exported": "export, then by its path",
}
OF_SPARK: Final = frozenset(
    {"spark_sql", "spark_dataframe", "spark_reads", "spark_writes", "spark_optimizes", "java_reads", "java_appends"}
)
"""Origins and uses that need a Spark session, or its JVM with Delta's own clients."""
RUNNING: Final = {
    "up": "`turnstile up`",
    "serve": "`turnstile serve`, with a token",
    "dynamodb": "a server on DynamoDB's API",
    "emulated": "the emulated deployment",
}


class Refused(msgspec.Struct, frozen=True):
    """A refused cell: ``words`` are in the error, ``shown`` is the text of the page."""

    words: str
    shown: str


_CLONE: Final = Refused("a clone of a Delta table is read-only", "refused: a clone is read-only")
_NOT_DELTA: Final = Refused("it is an Iceberg table", "no: it is a table of Iceberg's API")
_TOLD: Final = Refused("is no Delta table but one of iceberg", _NOT_DELTA.shown)
_NOT_IN_SPARK: Final = Refused("is an Iceberg table, and statements of a lake are Delta's", _NOT_DELTA.shown)
_OUTSIDE: Final = Refused(
    "is external: its commits are not coordinated here", "refused: read it by its location, or import it"
)

REFUSED: Final[dict[tuple[str, str], Refused]] = {
    ("clone", "client_appends"): _CLONE,
    ("clone", "client_optimizes"): _CLONE,
    **{
        ("clone", use): Refused("the table is pinned", _CLONE.shown)
        for use in ("rows_added", "rows_set_aside", "transaction", "expected")
    },
    **{("clone", use): Refused("is pinned in the catalog", _CLONE.shown) for use in ("branched", "agent_writes")},
    ("clone", "exported"): _CLONE,
    ("clone", "java_reads"): Refused("is a clone, pinned to version", "no: Unity's API does not show clones"),
    ("clone", "java_appends"): Refused("is a clone, pinned to version", "no: Unity's API does not show clones"),
    ("clone", "duckdb_reads"): Refused("does not exist", "no: Unity's API does not show clones"),
    ("clone", "pyiceberg_reads"): Refused(
        "of its source, or the clone with turnstile_spark", "refused: read that snapshot of its source"
    ),
    ("clone", "spark_writes"): Refused("writes are its source's", _CLONE.shown),
    ("clone", "spark_optimizes"): Refused("this is its source's log", _CLONE.shown),
    **{("external", use): _OUTSIDE for use in USES if use not in ("duckdb_reads", "found", "undropped", "renamed")},
    ("external", "pyiceberg_reads"): Refused("it is an external table: read it by its location", _OUTSIDE.shown),
    ("external", "java_reads"): Refused("A valid version must be >= 0", _OUTSIDE.shown),
    ("external", "java_appends"): Refused("Commit version 0 must go via filesystem", _OUTSIDE.shown),
    ("external", "renamed"): Refused(
        "rename it through Unity Catalog's API", "refused: rename it by Unity's API; its drop works"
    ),
    **{("iceberg", use): _TOLD for use in ("client_reads", "client_appends", "client_optimizes")},
    **{("iceberg", use): _NOT_IN_SPARK for use in ("spark_reads", "spark_writes", "spark_optimizes")},
    **{
        ("iceberg", use): _NOT_DELTA
        for use in (
            "rows_added", "rows_set_aside", "expected", "java_reads", "java_appends", "planned", "sampled",
            "maintained", "verified", "transaction", "agent_writes", "exported",
        )
    },
    ("iceberg", "duckdb_reads"): Refused("does not exist", _NOT_DELTA.shown),
}  # fmt: skip


def cell(origin: str, use: str) -> str:
    """Returns the page's text for a cell."""
    refused = REFUSED.get((origin, use))
    return "works" if refused is None else refused.shown


def page() -> str:
    """Returns the text as the page has it: origins, uses, and a line for each answer other than
    "works"."""
    refused: dict[tuple[str, str], list[str]] = {}
    for origin, use in REFUSED:
        refused.setdefault((origin, cell(origin, use)), []).append(use)
    lines = [f"| {ORIGINS[origin]} | {_shown(uses)} | {answer} |" for (origin, answer), uses in refused.items()]
    made = listed("A table is made by", ORIGINS.values())
    used = listed("It is used by", USES.values())
    heads = ["| made by | used by | answer |", "| --- | --- | --- |"]
    return "\n".join((BEGIN, "", *made, "", *used, "", "Every pair works but these:", "", *heads, *lines, "", END))


def _shown(uses: list[str]) -> str:
    """Returns the text for these uses: for most of them by those that are left."""
    is_most = len(uses) > len(USES) / 2
    shown = "; ".join(shown for use, shown in USES.items() if (use in uses) != is_most)
    return f"all but {shown}" if is_most else shown


def listed(head: str, names: Iterable[str]) -> list[str]:
    """Returns the lines of a paragraph with these names."""
    return textwrap.wrap(f"{head}: {'; '.join(names)}.", 99, break_long_words=False, break_on_hyphens=False)

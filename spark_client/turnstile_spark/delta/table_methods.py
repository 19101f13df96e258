"""Methods of Delta's Python ``DeltaTable`` that lose the catalog of a table's name, mended for
tables of lakes.

``detail()``, ``vacuum()`` and ``generate()`` look the table up again by schema and name, in the
session's current catalog: they do not find a lake's table, or find another of that name. Here the
statement is run with the whole name. Other tables are left to Delta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnstile_spark.names import quoted_table
from turnstile_spark.transactions.scopes.scope import lake_of_catalog

_MARK = "turnstile"


def install(is_lake: Callable[[str], bool]) -> None:
    """Replaces the methods. Idempotent. ``is_lake`` says whether a lake is attached under a
    name."""
    from delta.tables import DeltaTable

    if hasattr(DeltaTable.detail, _MARK):
        return

    def name_of(table: Any) -> str | None:
        """The whole name of a lake's table, quoted; None for other tables."""
        member = table._jdt.getClass().getDeclaredField("table")
        member.setAccessible(True)
        described = member.get(table._jdt).catalogTable()
        identifier = described.get().identifier() if described.isDefined() else None
        if identifier is None or not identifier.catalog().isDefined():
            return None
        lake = lake_of_catalog(str(identifier.catalog().get()))
        if not is_lake(lake):
            return None
        return quoted_table(lake, str(identifier.database().get()), str(identifier.table()))

    def replace(method: str, statement: Callable[..., str], result: Callable[[Any, Any], Any]) -> None:
        original = getattr(DeltaTable, method)

        def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
            name = name_of(self)
            if name is None:
                return original(self, *args, **kwargs)
            return result(self._spark, self._spark.sql(statement(name, *args, **kwargs)))

        replacement.__doc__ = original.__doc__
        replacement.__name__ = method
        setattr(replacement, _MARK, True)
        setattr(DeltaTable, method, replacement)

    def vacuum(name: str, retentionHours: float | None = None) -> str:
        retain = "" if retentionHours is None else f" RETAIN {float(retentionHours):f} HOURS"
        return f"VACUUM {name}{retain}"

    def generate(name: str, mode: str) -> str:
        return f"GENERATE {mode} FOR TABLE {name}"

    replace("detail", lambda name: f"DESCRIBE DETAIL {name}", lambda _, frame: frame)
    replace("vacuum", vacuum, lambda spark, _: _empty(spark))
    replace("generate", generate, lambda *_: None)


def _empty(spark: Any) -> Any:
    """The result of Delta's ``vacuum``: a DataFrame without columns."""
    from pyspark.sql.classic.dataframe import DataFrame

    return DataFrame(spark._jsparkSession.emptyDataFrame(), spark)

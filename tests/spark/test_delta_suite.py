"""Delta's own Python suite, unmodified, against a lake: what it does with a path happens to a table
of the lake.

``TURNSTILE_DELTA_SUITE`` names the folder ``python/delta/tests`` of a copy of Delta's sources, of
the version that is installed. Tests that cannot pass in a lake are in :data:`LIMITS`, each with its
reason; one that passes fails, too.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import sys
import tempfile
import types
import unittest
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("TURNSTILE_DELTA_SUITE")
if not FOLDER:
    pytest.skip("TURNSTILE_DELTA_SUITE names no folder with Delta's Python suite", allow_module_level=True)

#: As in the suite's own sessions: VACUUM and CONVERT would start 10,000 tasks.
LISTING_TASKS = ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "5")
_BUILDER = "Delta's table builder parses names of two parts, and looks the table up in spark_catalog when it is made"
_FEATURES = "a catalog-managed table has table features (reader 3, writer 7) from the start"
_MAINTENANCE = "Delta refuses it for catalog-managed tables: maintenance is the catalog's"
LIMITS = {
    **dict.fromkeys(
        (
            "test_create_replace_table_with_cluster_by",
            "test_create_replace_table_with_no_spark_session_passed",
            "test_create_table_behavior",
            "test_create_table_geo_types",
            "test_create_table_with_cluster_by",
            "test_create_table_with_existing_schema",
            "test_create_table_with_identity_column",
            "test_create_table_with_name_only",
            "test_replace_table_behavior",
            "test_replace_table_with_cluster_by",
            "test_replace_table_with_name_only",
            "test_verify_paritionedBy_compatibility",
        ),
        _BUILDER,
    ),
    **dict.fromkeys(("test_addFeatureSupport", "test_protocolUpgrade"), _FEATURES),
    "test_dropFeatureSupport": "its table features are in the jar of Delta's own tests only",
    **dict.fromkeys(
        (
            "test_optimize",
            "test_optimize_w_partition_filter",
            "test_optimize_zorder_by",
            "test_optimize_zorder_by_w_partition_filter",
            "test_vacuum",
        ),
        _MAINTENANCE,
    ),
    **dict.fromkeys(
        ("test_create_table_with_name_and_location", "test_replace_table_with_name_and_location"),
        "the server chooses the locations of tables (I10)",
    ),
    "test_ddls": "it expects the protocol of a table without features, and moves a table to another location",
    "test_history": "mapped: what replaces a table by name is another operation than what overwrites a path",
}
_numbers = itertools.count(1)


class DeltaTestCase(unittest.TestCase):
    """Stands for ``delta.testing.utils.DeltaTestCase``: the lake is the current catalog, paths are
    mapped to its tables."""

    spark: Any
    lake: Any

    @pytest.fixture(autouse=True)
    def _session(self, spark: Any, lake: Any) -> None:
        self.spark = spark
        self.lake = lake

    def setUp(self) -> None:
        self.schema = f"suite{os.getpid()}_{next(_numbers)}"
        self.tempPath = tempfile.mkdtemp()
        self.tempFile = os.path.join(self.tempPath, "tempFile")
        self.addCleanup(shutil.rmtree, self.tempPath, ignore_errors=True)
        self.spark.sql(f"CREATE SCHEMA lake.{self.schema}")
        self.spark.sql(f"USE lake.{self.schema}")
        self.addCleanup(self.spark.sql, "USE spark_catalog.default")
        self.spark.conf.set(*LISTING_TASKS)
        self.addCleanup(self.spark.conf.unset, LISTING_TASKS[0])
        stack = ExitStack()
        self.addCleanup(stack.close)
        for owner, name, mapped in self._mapped():
            stack.enter_context(patch.object(owner, name, mapped))

    def _name(self, path: str) -> str:
        """The table that stands for a path."""
        return f"lake.{self.schema}.p{re.sub('[^A-Za-z0-9]+', '_', path)}".lower()

    def _is_table(self, path: str) -> bool:
        """Whether a table stands for the path. What CONVERT and the table builder make there are
        tables at paths."""
        return os.path.islink(path)

    def _named(self, match: re.Match[str]) -> str:
        """The name of the table, for a path in SQL that a table stands for."""
        path = match[1] or match[2]
        return self._name(path) if self._is_table(path) else match[0]

    def _show_files(self, path: str) -> None:
        """Makes the table's folder appear at the path."""
        if not os.path.lexists(path):
            location = self.spark.sql(f"DESCRIBE DETAIL {self._name(path)}").collect()[0].location
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(location.removeprefix("file:"), path)

    def _mapped(self) -> Iterator[tuple[Any, str, Any]]:
        """Methods that take paths, and what stands for them."""
        test = self
        sources: dict[int, str] = {}
        load = DataFrameReader.load
        save = DataFrameWriter.save
        sql = SparkSession.sql
        for_path = DeltaTable.forPath
        is_delta = DeltaTable.isDeltaTable

        def remembering(format: Any) -> Any:
            def remembered(self: Any, source: str) -> Any:
                sources[id(self)] = source
                return format(self, source)

            return remembered

        def mapped_load(self: Any, path: Any = None, **options: Any) -> Any:
            if sources.get(id(self)) == "delta" and test._is_table(path):
                return self.table(test._name(path))
            return load(self, path, **options)

        def mapped_save(self: Any, path: Any = None, **options: Any) -> None:
            if sources.get(id(self)) != "delta":
                save(self, path, **options)
                return
            self.saveAsTable(test._name(path), **options)
            test._show_files(path)

        def mapped_sql(self: Any, text: str, *args: Any, **kwargs: Any) -> Any:
            text = re.sub(r"delta\.`(/[^`]+)`|'(/[^`']+)'", test._named, text)
            return sql(self, text, *args, **kwargs)

        def mapped_for_path(spark: Any, path: Any, *options: Any) -> Any:
            if test._is_table(path):
                return DeltaTable.forName(spark, test._name(path))
            return for_path(spark, path, *options)

        def mapped_is_delta(spark: Any, path: str) -> bool:
            return test._is_table(path) or is_delta(spark, path)

        yield DataFrameReader, "format", remembering(DataFrameReader.format)
        yield DataFrameWriter, "format", remembering(DataFrameWriter.format)
        yield DataFrameReader, "load", mapped_load
        yield DataFrameWriter, "save", mapped_save
        yield SparkSession, "sql", mapped_sql
        yield DeltaTable, "forPath", staticmethod(mapped_for_path)
        yield DeltaTable, "isDeltaTable", staticmethod(mapped_is_delta)

    @contextmanager
    def table(self, *names: str) -> Iterator[None]:
        """As in PySpark's own test case: the tables are gone after the block."""
        try:
            yield
        finally:
            for name in names:
                self.spark.sql(f"DROP TABLE IF EXISTS {name}")

    @contextmanager
    def tempTable(self) -> Iterator[str]:
        name = f"lake.{self.schema}.table_{next(_numbers)}"
        with self.table(name):
            yield name


def _suite(folder: Path) -> Iterator[type]:
    """The suite's test cases, with the tests of :data:`LIMITS` marked."""
    utils: Any = types.ModuleType("delta.testing.utils")
    utils.DeltaTestCase = DeltaTestCase
    with patch.dict(sys.modules, {"delta.testing": types.ModuleType("delta.testing"), "delta.testing.utils": utils}):
        for name in ("test_deltatable", "test_sql", "test_exceptions"):
            spec = importlib.util.spec_from_file_location(f"delta_suite_{name}", folder / f"{name}.py")
            assert spec and spec.loader
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            for case in vars(module).values():
                if isinstance(case, type) and issubclass(case, DeltaTestCase) and case is not DeltaTestCase:
                    for name in LIMITS.keys() & set(dir(case)):
                        setattr(case, name, pytest.mark.xfail(reason=LIMITS[name], strict=True)(getattr(case, name)))
                    yield case


globals().update({case.__name__: case for case in _suite(Path(FOLDER))})

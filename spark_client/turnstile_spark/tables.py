"""A loaded table as Spark's ``V1Table``: what Delta's catalog expects from the catalog below it."""

from __future__ import annotations

import json
from collections import OrderedDict

from turnstile_spark.answers import TableState
from turnstile_spark.coordinator import TABLE_ID
from turnstile_spark.jvm import JavaObject, Jvm

_CATALOG = "org.apache.spark.sql.catalyst.catalog."


class Tables:
    """Makes ``V1Table`` objects; they are immutable, so one is reused while name and metadata (etag) stay the same."""

    def __init__(self, jvm: Jvm, lake_name: str) -> None:
        self.jvm, self.lake_name = jvm, lake_name
        self._made: OrderedDict[tuple[str, str, str], JavaObject] = OrderedDict()
        self._storage = jvm.module(_CATALOG + "CatalogStorageFormat").empty()

    def v1_table(self, state: TableState) -> JavaObject:
        """The table as Spark's."""
        key = (state.table_id, state.etag, state.name)
        found = self._made.get(key)
        if found is None:
            found = self.jvm.new("org.apache.spark.sql.connector.catalog.V1Table", self._describe(state))
            self._made[key] = found
            while len(self._made) > 256:
                self._made.popitem(last=False)
        return found

    def _describe(self, state: TableState) -> JavaObject:
        jvm = self.jvm
        _, *levels, table = state.name.split(".")
        namespace = ".".join(levels)
        # The catalog part makes Delta ask the coordinator registered under this name.
        identifier = jvm.new(
            "org.apache.spark.sql.catalyst.TableIdentifier", table, jvm.some(namespace), jvm.some(self.lake_name)
        )
        properties = self._storage.properties()
        # These two make Delta's streaming source read a catalog-managed table (its kernel connector looks for them).
        properties = properties.updated(TABLE_ID, state.table_id)
        properties = properties.updated("delta.feature.catalogManaged", "supported")
        location = jvm.cls(_CATALOG + "CatalogUtils").stringToURI(state.location)
        storage = jvm.scala_copy(self._storage, locationUri=jvm.some(location), properties=properties)
        schema = jvm.cls("org.apache.spark.sql.types.DataType").fromJson(json.dumps(state.metadata["schema"]))
        managed = jvm.module(_CATALOG + "CatalogTableType").MANAGED()
        table_class = jvm.cls(_CATALOG + "CatalogTable")
        given = [identifier, managed, storage, schema, jvm.some("delta")]
        defaults = [getattr(table_class, f"$lessinit$greater$default${at}")() for at in range(6, 23)]
        # The schema is there for the streaming source; partition columns are not: Spark wants them last in a schema.
        return jvm.scala_copy(table_class(*given, *defaults), createTime=state.created)

"""Reading a table by a plan of the server's: the driver reads no checkpoint, however many files the
table has.

    1  the definition    protocol and metadata of the version that is read: one request
    2  the predicate     is resolved by Spark on the table's columns; the parts of it that the
                         server supports, as SQL in which every literal has its type
    3  the plan          the server's list of the files that may have rows that satisfy it
    4  a small log       these files by their full paths, as version 0 of a Delta log of their own,
                         in a folder of this session
    5  Delta reads it    as any table: column mapping, deletion vectors and types are Delta's own
                         business; the whole predicate is a filter of the DataFrame

So files that the plan leaves out only save work: rows come from the table's version. Protocol
and metadata are the table's, without the parts that only its catalog and its writers need.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from turnstile_http.api import Api, TableState, spark_location
from turnstile_predicates.predicates import Predicate
from turnstile_predicates.sql import sql_of
from turnstile_spark.context import LakeContext
from turnstile_spark.errors import turnstile_error
from turnstile_spark.jvm import items
from turnstile_spark.transactions.reads.catalyst_predicates import predicate_of

#: Files of one read: its log is made in this process.
MAX_FILES: Final = 100_000
PAGE: Final = 5_000
#: Features that say who writes a table, and what a checkpoint looks like: of a log that nobody
#: writes to they say nothing.
_LEFT_OUT: Final = frozenset({"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck", "v2Checkpoint"})
_PROPERTIES_LEFT_OUT: Final = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestamp",
    "delta.feature.",
    "delta.checkpointPolicy",
    "io.unitycatalog.",
)
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")


def read_planned(context: LakeContext, spark: Any, state: TableState, where: str | None, version: int | None) -> Any:
    """The rows of a table that was just loaded, at a version, as a DataFrame. Raises
    :class:`turnstile_http.errors.ApiError` if the server refuses, ``TURNSTILE_REFUSED`` for too
    many files, and Spark's errors for ``where``.
    """
    definition, files = _planned_files(context.api, spark, state.table_id, where, version)
    location = context.jvm.cls("org.apache.spark.sql.catalyst.catalog.CatalogUtils").stringToURI(state.location)
    base = str(location.toString()).rstrip("/")
    log = "\n".join(json.dumps(action) for action in (*_definition(definition), *(_add(file, base) for file in files)))
    options = {} if state.pinned else context.credentials.of_table(state.table_id, state.location)
    options = {name.removeprefix("option."): value for name, value in options.items()}
    frame = spark.read.format("delta").options(**options).load(context.planned_reads.write(spark, log + "\n"))
    return frame if where is None else frame.where(where)


def _planned_files(
    api: Api, spark: Any, table_id: str, where: str | None, version: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The definition of a version, and the files that are to be read of it."""
    question = {"max_results": PAGE, "definition": True} | ({} if version is None else {"version": version})
    if where is None:
        plan = api.whole_plan(table_id, question, MAX_FILES)
        definition = plan["definition"]
    else:
        page = api.plan(table_id, {**question, "max_results": 1})
        definition = page["definition"]
        predicate = sql_of(resolved_predicate(spark, definition["metaData"]["schemaString"], where))
        wanted = {"max_results": PAGE, "version": page["version"]}
        wanted |= {} if predicate is None else {"predicate": predicate}
        plan = api.whole_plan(table_id, wanted, MAX_FILES)
    files = plan["files"]
    if len(files) > MAX_FILES:
        text = f"a planned read of more than {MAX_FILES} files: filter by more, or read the table itself"
        raise turnstile_error("TURNSTILE_REFUSED", text)
    return definition, files


# -- the predicate ----------------------------------------------------------------------------------------------------


def resolved_predicate(spark: Any, schema: str, where: str) -> Predicate | None:
    """Spark's form of a predicate on columns of this schema, in JSON; None if that is no filter of
    them alone. Raises Spark's errors."""
    from pyspark.sql.types import StructType

    frame = spark.createDataFrame(spark.sparkContext.emptyRDD(), StructType.fromJson(json.loads(schema))).where(where)
    plan = frame._jdf.queryExecution().optimizedPlan()
    if str(plan.nodeName()) != "Filter":
        return None
    attributes = {int(each.exprId().id()): str(each.name()) for each in items(plan.child().output())}
    return predicate_of(plan.condition(), attributes)


# -- the log ----------------------------------------------------------------------------------------------------------


def _definition(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Protocol and metadata for a log that is only read."""
    protocol = dict(definition["protocol"])
    metadata = dict(definition["metaData"])
    for member in ("readerFeatures", "writerFeatures"):
        if protocol.get(member) is not None:
            protocol[member] = [name for name in protocol[member] if name not in _LEFT_OUT]
    properties = metadata.get("configuration") or {}
    metadata["configuration"] = {k: v for k, v in properties.items() if not k.startswith(_PROPERTIES_LEFT_OUT)}
    return [{"protocol": protocol}, {"metaData": metadata}]


def _add(file: dict[str, Any], location: str) -> dict[str, Any]:
    """The action of a file with full paths. Of its statistics only the rows: the plan has used the
    others."""
    add = {name: file[name] for name in ("partitionValues", "size", "modificationTime")}
    add |= {"path": _full(file["path"], location), "dataChange": True}
    if file["records"] is not None:
        add["stats"] = json.dumps({"numRecords": file["records"]})
    if vector := file.get("deletionVector"):
        add["deletionVector"] = _with_full_path(vector, location)
    return {"add": add | {name: file[name] for name in ("baseRowId", "defaultRowCommitVersion") if name in file}}


def _full(path: str, location: str) -> str:
    """The path of a file, which is escaped as a URI and relative to the table, or a URI itself."""
    return f"{location}/{path}" if _ABSOLUTE.match(path) is None else spark_location(path)


def _with_full_path(vector: dict[str, Any], location: str) -> dict[str, Any]:
    """A deletion vector with the full path of its file. Source: Delta protocol, "Deletion
    Vector Descriptor Schema"."""
    if vector["storageType"] == "p":
        return {**vector, "pathOrInlineDv": _full(vector["pathOrInlineDv"], location)}
    if vector["storageType"] != "u":
        return vector
    prefix = vector["pathOrInlineDv"][:-20]
    text = vector["pathOrInlineDv"][-20:]
    numbers = [sum(_Z85.index(text[at + place]) * 85 ** (4 - place) for place in range(5)) for at in range(0, 20, 5)]
    name = f"deletion_vector_{UUID(bytes=b''.join(number.to_bytes(4) for number in numbers))}.bin"
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{location}/{quote(prefix) + '/' if prefix else ''}{name}"}

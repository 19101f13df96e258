"""Places of tables that another catalog manages, or none: the sources of ``turnstile import
--all``.

A source is written as ``file:///folder`` or ``s3://bucket/prefix`` (a tree of folders),
``unity:URL/CATALOG[.SCHEMA]`` (Unity Catalog's REST API, also Databricks'), ``glue:[DATABASE]``
(AWS Glue) or ``list:FILE`` (a CSV file with the columns name, location and, if they differ from
Delta, format and metadata_location: for catalogs without an API here, such as a Hive metastore).
Paths are taken literally, as everywhere in Turnstile: a blank is a blank. A source is never
changed.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from turnstile_cli.errors import CliError, Exit, usage

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"

FORMS: Final = "file:///folder, s3://bucket/prefix, unity:https://host/catalog, glue:database or list:tables.csv"
DEPTH_MAX: Final = 16
"""Levels of folders that a tree is searched to."""

_DELTA_LOG: Final = "_delta_log"
_METADATA: Final = "metadata"
_METADATA_FILE: Final = re.compile(r"(?:v(\d+)|(\d+)-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HINT: Final = "version-hint.text"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_@-]+")
_UNITY: Final = "/api/2.1/unity-catalog"
_PAGE: Final = 1000


@dataclass(frozen=True)
class SourceTable:
    """A table of a source.

    Attributes:
        levels: its path in the source, without its own name: folders, or schema or database.
        name: its name there.
        location: its folder, as the source has it.
        format: ``delta`` or ``iceberg``; else it cannot be imported, and ``problem`` says so.
        metadata_location: the newest metadata file of an Iceberg table.
        problem: the reason why it cannot be imported, and the remedy; empty if it can.
    """

    levels: tuple[str, ...]
    name: str
    location: str
    format: str = DELTA
    metadata_location: str = ""
    problem: tuple[str, str] | None = None


@dataclass(frozen=True)
class Folder:
    """The direct contents of a folder: names of folders, and of files."""

    folders: list[str]
    files: list[str]


@dataclass(frozen=True)
class Tree:
    """A tree of folders. Paths in it are relative to its root; the root's is empty, others end with
    ``/``.

    Attributes:
        root: its location, without a slash at the end.
        name: the name of the root, should it be a table itself.
        children: lists the folder with a path.
        text: reads the small file with a path.
    """

    root: str
    name: str
    children: Callable[[str], Folder]
    text: Callable[[str], str]


def tables_of(source: str, *, token: str = "", jobs: int = 8) -> Iterator[SourceTable]:
    """The tables of a source, in the order of their names where it has one.

    Args:
        source: as the module describes; raises a usage error for anything else.
        token: bearer token of a Unity Catalog.
        jobs: how many folders are listed at once.

    Raises CliError when the source cannot be read; some tables may have been given before.
    """
    scheme, _, rest = source.partition(":")
    match scheme.lower():
        case "unity":
            yield from _of_unity(rest, token)
        case "glue":
            yield from _of_glue(rest)
        case "list":
            yield from _of_list(Path(rest))
        case "s3" | "s3a" | "s3n":
            yield from _of_bucket(source, jobs)
        case "file":
            yield from _of_folder(Path("/" + rest.lstrip("/")), source, jobs)
        case _ if "://" not in source and source.startswith(("/", ".")):
            yield from _of_folder(Path(source), source, jobs)
        case _:
            raise usage(f"'{source}' is not a source of tables", f"write {FORMS}")


def name_in_catalog(level: str) -> str:
    """A name of a source in the form of catalogs: characters that are no letter, digit, _, @ or -
    become _; Hive's ``sales.db`` is sales."""
    return _NOT_IN_NAMES.sub("_", level.removesuffix(".db"))[:255] or "_"


# -- trees of folders --------------------------------------------------------------------------------------------------


def walk(tree: Tree, jobs: int = 8) -> Iterator[SourceTable]:
    """The tables in a tree, a level of folders at a time, ``jobs`` folders at once. Folders in a
    table, partition folders (``day=1``) and folders whose name begins with _ or . are not searched.
    """
    with ThreadPoolExecutor(jobs) as pool:
        paths = [""]
        for _ in range(DEPTH_MAX):
            below = list[str]()
            for path, folder in zip(paths, pool.map(tree.children, paths), strict=True):
                *levels, name = path.rstrip("/").split("/") if path else [tree.name]
                location = f"{tree.root}/{path}".rstrip("/")
                if _DELTA_LOG in folder.folders:
                    yield SourceTable(tuple(levels), name, location)
                elif newest := _newest_metadata(tree, path, folder):
                    yield _iceberg(SourceTable(tuple(levels), name, location, ICEBERG), newest)
                else:
                    below += [f"{path}{child}/" for child in sorted(folder.folders) if _search(child)]
            if not below:
                return
            paths = below


def _search(folder: str) -> bool:
    return not folder.startswith(("_", ".")) and "=" not in folder


def _newest_metadata(tree: Tree, path: str, folder: Folder) -> list[str]:
    """The newest metadata file of the Iceberg table in a folder: the one that a Hadoop catalog's
    hint names, else the one with the highest number. Several if it is ambiguous; none if there is
    no table.
    """
    if _METADATA not in folder.folders:
        return []
    files = tree.children(f"{path}{_METADATA}/").files
    numbered = [(int(match[1] or match[2]), file) for file in files if (match := _METADATA_FILE.fullmatch(file))]
    hint = tree.text(f"{path}{_METADATA}/{_HINT}").strip() if numbered and _HINT in files else ""
    hinted = [file for number, file in numbered if hint.isdecimal() and number == int(hint)]
    return hinted or [file for number, file in numbered if number == max(numbered)[0]]


def _iceberg(table: SourceTable, newest: list[str]) -> SourceTable:
    if len(newest) == 1:
        return replace(table, metadata_location=f"{table.location}/{_METADATA}/{newest[0]}")
    why = f"{len(newest)} metadata files have the highest number: its catalog alone knows which counts"
    remedy = "import it from its catalog (glue:), or name the file in a list: (column metadata_location)"
    return replace(table, problem=(why, remedy))


def _of_folder(folder: Path, source: str, jobs: int) -> Iterator[SourceTable]:
    root = folder.resolve()
    if not root.is_dir():
        raise CliError(
            Exit.NOT_FOUND, f"{source}: there is no such folder", remedy="check its path", type="NoSuchSource"
        )

    def children(path: str) -> Folder:
        entries = list(os.scandir(root / path))
        here = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return Folder(here, [entry.name for entry in entries if entry.is_file()])

    try:
        yield from walk(Tree(f"file://{root}", root.name, children, lambda path: (root / path).read_text()), jobs)
    except OSError as error:
        raise _unreadable(source, error) from error


def _of_bucket(source: str, jobs: int) -> Iterator[SourceTable]:
    bucket, _, path = source.partition("://")[2].partition("/")
    prefix = path.strip("/")
    base = f"{prefix}/" if prefix else ""
    client = _aws("s3")

    def children(path: str) -> Folder:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=base + path, Delimiter="/")
        folder = Folder([], [])
        cut = len(base + path)
        for page in pages:
            folder.folders.extend(common["Prefix"][cut:-1] for common in page.get("CommonPrefixes", ()))
            folder.files.extend(item["Key"][cut:] for item in page.get("Contents", ()) if item["Key"][cut:])
        return folder

    def text(path: str) -> str:
        return str(client.get_object(Bucket=bucket, Key=base + path)["Body"].read(64), "utf-8", "replace")

    root = f"s3://{bucket}/{prefix}".rstrip("/")
    with _aws_errors(source):
        yield from walk(Tree(root, prefix.rpartition("/")[2] or bucket, children, text), jobs)


# -- catalogs ----------------------------------------------------------------------------------------------------------


def _of_unity(address: str, token: str) -> Iterator[SourceTable]:
    base, _, names = address.rstrip("/").rpartition("/")
    catalog, _, only = names.partition(".")
    if not base.startswith(("http://", "https://")) or not urlsplit(base).netloc or not catalog:
        raise usage(f"'unity:{address}' names no catalog", "write unity:https://host/catalog or .../catalog.schema")
    headers = {"authorization": f"Bearer {token}"} if token else {}

    with httpx.Client(base_url=base.removesuffix(_UNITY) + _UNITY, headers=headers, timeout=35.0) as http:

        def pages(path: str, member: str, **query: str | int) -> Iterator[dict[str, Any]]:
            page_token = ""
            while True:
                page = _got(
                    http, path, {**query, "max_results": _PAGE, **({"page_token": page_token} if page_token else {})}
                )
                yield from page.get(member) or ()
                page_token = page.get("next_page_token") or ""
                if not page_token:
                    return

        schemas = [only] if only else [row["name"] for row in pages("/schemas", "schemas", catalog_name=catalog)]
        for schema in schemas:
            for row in pages("/tables", "tables", catalog_name=catalog, schema_name=schema):
                yield _unity_table(schema, row)


def _got(http: httpx.Client, path: str, query: dict[str, str | int]) -> dict[str, Any]:
    try:
        response = http.get(path, params=query)
        answer = response.json() if response.is_success else None
    except (httpx.HTTPError, ValueError) as error:
        raise CliError(
            Exit.UNREACHABLE, f"{http.base_url}{path.lstrip('/')} cannot be read: {error}",
            remedy="check the address of the source", type="SourceUnreachable",
        ) from error  # fmt: skip
    if not isinstance(answer, dict):
        remedy = (
            "give a token of the source with --source-token"
            if response.status_code in (401, 403)
            else "check the source's name"
        )
        code = Exit.NOT_FOUND if response.status_code == 404 else Exit.REFUSED
        message = f"GET {response.request.url} was answered with status {response.status_code}: {response.text[:200]}"
        raise CliError(code, message, remedy=remedy, type="SourceRefused", status=response.status_code)
    return answer


def _unity_table(schema: str, row: dict[str, Any]) -> SourceTable:
    location = row.get("storage_location") or ""
    kind = str(row.get("data_source_format") or row.get("table_type") or "").lower()
    if kind != DELTA or not location:
        return _of_other_format((schema,), row["name"], location, kind)
    return SourceTable((schema,), row["name"], location)


def _of_glue(database: str) -> Iterator[SourceTable]:
    client = _aws("glue")
    with _aws_errors(f"glue:{database}"):
        databases = [database] if database else [
            row["Name"] for page in client.get_paginator("get_databases").paginate() for row in page["DatabaseList"]
        ]  # fmt: skip
        for name in databases:
            for page in client.get_paginator("get_tables").paginate(DatabaseName=name):
                for row in page["TableList"]:
                    yield _glue_table(name, row)


def _glue_table(database: str, row: dict[str, Any]) -> SourceTable:
    """A table of Glue: Spark keeps its provider and a path in the parameters, Athena and Iceberg a
    table_type."""
    parameters = row.get("Parameters") or {}
    storage = row.get("StorageDescriptor") or {}
    path = (storage.get("SerdeInfo") or {}).get("Parameters", {}).get("path", "")
    location = path or storage.get("Location") or ""
    kinds = {
        parameters.get(member, "").lower() for member in ("table_type", "spark.sql.sources.provider", "classification")
    }
    if ICEBERG in kinds and parameters.get("metadata_location"):
        return SourceTable((database,), row["Name"], location, ICEBERG, parameters["metadata_location"])
    if DELTA in kinds and location:
        return SourceTable((database,), row["Name"], location)
    return _of_other_format(
        (database,), row["Name"], location, ", ".join(sorted(kinds - {""})) or row.get("TableType", "")
    )


def _of_other_format(levels: tuple[str, ...], name: str, location: str, kind: str) -> SourceTable:
    why = f"it is no Delta or Iceberg table ({kind.lower() or 'no format is named'})"
    return SourceTable(
        levels, name, location, kind, problem=(why, "convert it first, or leave it where it is (--match)")
    )


def _of_list(file: Path) -> Iterator[SourceTable]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(f"list:{file}", error) from error
    for line, row in enumerate(rows, start=2):
        *levels, name = (row.get("name") or "").split(".")
        if not name or not row.get("location"):
            raise usage(
                f"{file}, line {line}: name or location is missing",
                "its first line is: name,location,format,metadata_location",
            )
        kind = (row.get("format") or DELTA).lower()
        metadata = row.get("metadata_location") or ""
        if kind == DELTA or (kind == ICEBERG and metadata):
            yield SourceTable(tuple(levels), name, row["location"], kind, metadata)
        elif kind == ICEBERG:
            why = ("an Iceberg table needs the column metadata_location", "name its newest metadata file")
            yield SourceTable(tuple(levels), name, row["location"], kind, problem=why)
        else:
            yield _of_other_format(tuple(levels), name, row["location"], kind)


# -- Delta's log store on DynamoDB -------------------------------------------------------------------------------------


class LogStore:
    """The table of commits of Delta's ``S3DynamoDBLogStore``: an entry whose file was not copied
    into ``_delta_log`` yet is a commit that a reader of the folder alone does not see
    (delta-storage-s3-dynamodb, ``BaseExternalLogStore``).
    """

    def __init__(self, table: str) -> None:
        """``table`` as in ``spark.io.delta.storage.S3DynamoDBLogStore.ddb.tableName``."""
        self._table = table
        self._client = _aws("dynamodb")

    def incomplete(self, location: str) -> str:
        """The file of the table's newest commit if it was not copied yet, else empty. Raises
        CliError if it is unknown."""
        bucket_and_key = location.rstrip("/").partition("://")[2]
        for scheme in ("s3a", "s3", "s3n"):
            with _aws_errors(f"DynamoDB table {self._table}"):
                newest = self._client.query(
                    TableName=self._table,
                    KeyConditionExpression="tablePath = :path",
                    ExpressionAttributeValues={":path": {"S": f"{scheme}://{bucket_and_key}"}},
                    ConsistentRead=True,
                    ScanIndexForward=False,
                    Limit=1,
                )["Items"]
            for entry in newest:
                if entry.get("complete", {}).get("S") != "true":
                    return str(entry["fileName"]["S"])
        return ""


# -- access ------------------------------------------------------------------------------------------------------------


def _aws(service: str) -> Any:
    """A client of AWS, by the credentials, region and endpoints of the environment."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        return Session().create_client(service, config=Config(retries={"mode": "adaptive", "max_attempts": 8}))
    except (BotoCoreError, ValueError) as error:
        raise CliError(
            Exit.USAGE, f"there is no client of AWS: {error}",
            remedy="set AWS_REGION, and credentials as the AWS command line has them",
            type="NoAwsClient",
        ) from error  # fmt: skip


@contextmanager
def _aws_errors(source: str) -> Iterator[None]:
    """Raises refusals and missing answers of AWS as CliError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _unreadable(source, error) from error


def _unreadable(source: str, error: Exception) -> CliError:
    return CliError(
        Exit.REFUSED,
        f"{source} cannot be read: {error}",
        remedy="check its name, the region and your rights there",
        type="SourceRefused",
    )

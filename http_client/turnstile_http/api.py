"""The calls of the HTTP API (``docs/api.md``) that the client makes, one method each, and their
responses.

All calls raise :class:`turnstile_http.errors.ApiError`, ``InvalidName`` before anything is sent.
Reads and idempotent calls are repeated while the failure is transient; so are changes of the
catalog, under a key by which the server makes them once.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from turnstile_http.errors import ApiError
from turnstile_http.http import Http, Json, path
from turnstile_http.names import check_name, dotted_name, is_uuid

_UNITY = ("api", "2.1", "unity-catalog")
PLANS = 3
"""How often a plan is begun whose pages end before the last one."""


def moment_body(at: int | dt.datetime) -> dict[str, int]:
    """Returns a moment of a catalog as bodies of requests have it: a time with its zone, or a
    number of the catalog's log. Raises ValueError for a time without a zone."""
    if isinstance(at, int):
        return {"seq": at}
    if at.tzinfo is None:
        raise ValueError(f"{at} has no zone: write datetime(..., tzinfo=datetime.UTC)")
    return {"time": int(at.timestamp() * 1000)}


class Api:
    """The API of one server for one of its catalogs."""

    def __init__(self, http: Http, catalog: str) -> None:
        self.http = http
        self.catalog = check_name(catalog, "catalog")

    def _namespaces(self, *parts: str) -> str:
        return path("v1", "catalogs", self.catalog, "namespaces", *parts)

    def _namespace(self, name: str, *parts: str) -> str:
        return self._namespaces(dotted_name(name.split(".")), *parts)

    def _table(self, namespace: str, table: str, *parts: str) -> str:
        return self._namespace(namespace, "tables", check_name(table, "table"), *parts)

    def _pages(self, name: str, route: str, member: str, **query: str | None) -> Iterator[dict[str, Any]]:
        token: str | None = None
        while True:
            response = self.http.call(name, "GET", route, query={**query, "page_token": token})
            yield from response[member]
            token = response.get("next_page_token")
            if not token:
                return

    # -- tables by name ---------------------------------------------------------------------------------------------

    def load(self, namespace: str, table: str) -> TableState:
        """Loads a table by name; 404 ``NoSuchTable`` or ``NoSuchNamespace``."""
        sent_ms = time.time() * 1000
        return TableState.read(self.http.call("load", "GET", self._table(namespace, table)), sent_ms)

    def tables(self, namespace: str, as_of: str | None = None) -> list[str]:
        """The names of the tables in a namespace, now or as of a moment."""
        listed = self._pages("tables", self._namespace(namespace, "tables"), "tables", as_of=as_of)
        return [t["name"] for t in listed]

    def delta_tables(self, namespace: str) -> list[tuple[str, str]]:
        """Name and id of the Delta tables in a namespace."""
        listed = self._pages("tables", self._namespace(namespace, "tables"), "tables")
        return [(t["name"], t["table_id"]) for t in listed if t["format"] == "delta"]

    def stage(self, namespace: str, table: str, *, new_namespace: bool = False) -> Json:
        """Reserves a fresh id and location. Repeating it only leaves an unused staging table behind
        (gc removes it). ``new_namespace``: the namespace is not there yet."""
        route = self._namespace(namespace, "staging-tables")
        body: dict[str, Any] = {"name": check_name(table, "table")}
        if new_namespace:
            body["new_namespace"] = True
        return self.http.call("stage", "POST", route, body)

    def register(self, namespace: str, table: str, table_id: str) -> TableState:
        """Gives a staged table its name after version 0 is written."""
        sent_ms = time.time() * 1000
        body = {"name": check_name(table, "table"), "table_id": table_id}
        route = self._namespace(namespace, "tables")
        return TableState.read(self.http.call("register", "POST", route, body, change=True), sent_ms)

    def rename(self, namespace: str, table: str, to_namespace: str, to_table: str) -> None:
        """Renames a table, also into another namespace."""
        body = {"name": check_name(to_table, "table"), "namespace": dotted_name(to_namespace.split("."))}
        route = self._table(namespace, table, "rename")
        self.http.call("rename", "POST", route, body, change=True)

    def drop(self, namespace: str, table: str) -> bool:
        """Drops a table; False when there is none."""
        route = self._table(namespace, table)
        try:
            self.http.call("drop", "DELETE", route, change=True)
        except ApiError as e:
            if e.type in ("NoSuchTable", "NoSuchNamespace"):
                return False
            raise
        return True

    def undrop(
        self, namespace: str, table: str, *, name: str | None, to: str | None, at: dict[str, Any] | None
    ) -> Json:
        """Brings back the table that was dropped last under this name, as ``name`` in the namespace
        ``to`` if given; returns its entry. ``at``: a moment at which it was there, as bodies have
        it.
        """
        body = {key: value for key, value in (("name", name), ("namespace", to), ("at", at)) if value is not None}
        route = self._table(namespace, table, "undrop")
        return self.http.call("undrop", "POST", route, body, change=True)

    # -- namespaces ---------------------------------------------------------------------------------------------------

    def namespaces(self, as_of: str | None = None) -> list[str]:
        """The names of all namespaces, levels joined by dots, now or as of a moment."""
        return [n["name"] for n in self._pages("namespaces", self._namespaces(), "namespaces", as_of=as_of)]

    def namespace(self, name: str, as_of: str | None = None) -> Json:
        """One namespace: ``name``, ``comment``, ``properties``, ``created``; now or as of a
        moment."""
        query = {"as_of": as_of} if as_of else {}
        return self.http.call("namespace", "GET", self._namespace(name), query=query)

    def find(self, query: str, as_of: str | None = None) -> Iterator[dict[str, Any]]:
        """Resolves a path query: ``name``, ``kind``, ``id`` and more of each entry; now or as of a
        moment."""
        return self._pages("find", path("v1", "find"), "found", query=query, as_of=as_of)

    def catalog_head(self) -> str:
        """The id of the catalog's present HEAD."""
        query = {"query": f"/{self.catalog}/*", "max_results": 1}
        return str(self.http.call("find", "GET", path("v1", "find"), query=query)["head"])

    def create_namespace(self, name: str, comment: str | None, properties: dict[str, str]) -> None:
        """Creates a namespace; 409 ``AlreadyExists``."""
        body: dict[str, Any] = {"name": dotted_name(name.split(".")), "properties": properties}
        if comment is not None:
            body["comment"] = comment
        self.http.call("create namespace", "POST", self._namespaces(), body, change=True)

    def alter_namespace(self, name: str, comment: str | None, set: dict[str, str], unset: list[str]) -> None:
        """Changes comment (when not None) and properties."""
        body: dict[str, Any] = {"set": set, "unset": unset}
        if comment is not None:
            body["comment"] = comment
        self.http.call("alter namespace", "PATCH", self._namespace(name), body, change=True)

    def drop_namespace(self, name: str, cascade: bool) -> bool:
        """Drops a namespace; False when there is none; 409 ``NamespaceNotEmpty``."""
        route = self._namespace(name)
        try:
            query = {"cascade": "true" if cascade else "false"}
            self.http.call("drop namespace", "DELETE", route, query=query, change=True)
        except ApiError as e:
            if e.type == "NoSuchNamespace":
                return False
            raise
        return True

    # -- storage credentials -------------------------------------------------------------------------------------------

    def vends(self, table_id: str) -> bool:
        """Whether the server vends storage credentials, as it does or does not for this table on
        S3."""
        body = {"table_id": table_id, "operation": "READ"}
        answer = self.http.call("credentials", "POST", path(*_UNITY, "temporary-table-credentials"), body)
        return answer.get("aws_temp_credentials") is not None

    def vends_for_staging_table(self, table_id: str) -> bool:
        """As :meth:`vends`, for a table that has no name yet."""
        route = path(*_UNITY, "delta", "v1", "staging-tables", table_id, "credentials")
        return bool(self.http.call("credentials", "GET", route).get("storage-credentials"))

    # -- tables by id -------------------------------------------------------------------------------------------------

    def commits(self, table_id: str, start: int | None = None, end: int | None = None) -> Tail:
        """The ratified commits the table still carries; the server materialises inline ones
        first."""
        query = {"start": start, "end": end}
        return Tail.read(self.http.call("commits", "GET", path("v1", "tables", table_id, "commits"), query=query))

    def propose(self, table_id: str, proposal: dict[str, Any]) -> Json:
        """Proposes one commit: a single attempt (``proposals.ratify`` repeats it)."""
        return self.http.once("commit", "POST", path("v1", "tables", table_id, "commits"), proposal)

    def append_rows(
        self,
        name: str,
        content: bytes,
        headers: dict[str, str],
        *,
        wait_published: bool = False,
        evolves: bool = False,
        quarantines: bool = False,
    ) -> Json:
        """Adds rows to the table ``namespace.table``: a single attempt. ``headers`` say the format
        of ``content``, and identify the request. ``evolves``: columns that the table lacks are
        added to it. ``quarantines``: rows that do not fit go into a table beside it."""
        namespace, _, table = name.rpartition(".")
        query = {
            "wait": "publish" if wait_published else None,
            "schema": "evolve" if evolves else None,
            "on_error": "quarantine" if quarantines else None,
        }
        route = self._table(namespace, table, "rows")
        return self.http.once("rows", "POST", route, query=query, headers=headers, content=content)

    def outcome(self, table_id: str, version: int, txn_id: str | None = None, name: str | None = None) -> Outcome:
        """The outcome of a proposal for ``version``, known by txn id or staged name; a single
        attempt."""
        query = {"version": version, "txn_id": txn_id, "name": name}
        response = self.http.once("outcome", "GET", path("v1", "tables", table_id, "outcome"), query=query)
        return Outcome(response["outcome"], response.get("version"), response["latest"])

    def head(self, table_id: str) -> Head:
        """The HEAD of a table."""
        return Head.read(self.http.call("head", "GET", path("v1", "tables", table_id, "head")))

    def publish(self, table_id: str) -> dict[str, int]:
        """Publishes now; returns ``published``, ``floor``, ``latest``. Idempotent."""
        return self.http.call("publish", "POST", path("v1", "tables", table_id, "publish"))

    def vacuum(self, table_id: str, retention_ms: int | None, *, dry_run: bool) -> Json:
        """Announces a vacuum: which versions it has to leave. Idempotent."""
        body = {"dry_run": dry_run} | ({} if retention_ms is None else {"retention_ms": retention_ms})
        return self.http.call("vacuum", "POST", path("v1", "tables", table_id, "vacuums"), body)

    def plan(self, table_id: str, question: dict[str, Any]) -> Json:
        """A page of the files of a table that may have rows which satisfy a predicate; changes
        nothing."""
        return self.http.call("plan", "POST", path("v1", "tables", table_id, "plan"), question)

    def whole_plan(self, table_id: str, question: dict[str, Any], most_files: int | None = None) -> Json:
        """Returns the first page of a plan with the files of all pages, or of as many pages as have
        more than ``most_files``. Begins again when the pages have ended: the index that they were
        made from was replaced, or the log was cleaned up.

        Raises:
            ApiError: the service refuses the question, or the pages of three plans have ended.
        """
        for left in reversed(range(PLANS)):
            try:
                return self._all_pages(table_id, question, most_files)
            except ApiError as error:
                if error.body.get("field") != "page_token" or not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _all_pages(self, table_id: str, question: dict[str, Any], most_files: int | None) -> Json:
        first = page = self.plan(table_id, question)
        files = list(first["files"])
        while token := page.get("next_page_token"):
            if most_files is not None and len(files) > most_files:
                break
            page = self.plan(table_id, {**question, "definition": False, "page_token": token})
            files += page["files"]
        return {**first, "files": files}

    def pins(self, table_id: str) -> Json:
        """The pins of a table."""
        return self.http.call("pins", "GET", path("v1", "tables", table_id, "pins"))

    def begin_maintenance(self, table_id: str, term_ms: int) -> Json:
        """Begins a run of maintenance if something is due: a single attempt, since a second one
        would find the table leased by the first."""
        route = path("v1", "tables", table_id, "maintenance-runs")
        return self.http.once("begin maintenance", "POST", route, {"term_ms": term_ms})

    def update_maintenance(self, table_id: str, attempt: int, update: dict[str, Any]) -> Json:
        """Renews or ends a run; 409 ``ConcurrentChange`` if it is another process's by now, or
        ended before."""
        route = path("v1", "tables", table_id, "maintenance-runs", str(attempt))
        return self.http.call("update maintenance", "POST", route, update)

    # -- several tables ------------------------------------------------------------------------------------------------

    def transact(self, group: dict[str, Any]) -> Json:
        """Proposes a group of commits, or of commits with changes and reads of the catalog: a
        single attempt (``groups.ratify_group`` repeats it)."""
        at_catalog = ("catalogs", self.catalog) if "changes" in group else ()
        return self.http.once("transaction", "POST", path("v1", *at_catalog, "transactions"), group)

    def announce(self, id: str, announcement: dict[str, Any]) -> None:
        """Announces the commits of a transaction in its journal: a single attempt. Idempotent."""
        at_catalog = ("catalogs", self.catalog) if "changes" in announcement else ()
        self.http.once("announce", "PUT", path("v1", *at_catalog, "transactions", id), announcement)

    def entries(self, state: str | None = None) -> Iterator[dict[str, Any]]:
        """The journal's entries of transactions that this client may commit."""
        return self._pages("entries", path("v1", "transactions"), "transactions", state=state)

    def entry(self, id: str) -> Json:
        """The journal's entry of a transaction."""
        return self.http.call("entry", "GET", path("v1", "transactions", id))

    def resume(self, id: str, catalog: str = "") -> Json:
        """Commits an announced transaction, of ``catalog`` if its entry names one; answered as
        :meth:`transact`. Idempotent."""
        at_catalog = ("catalogs", catalog) if catalog else ()
        return self.http.call("resume", "POST", path("v1", *at_catalog, "transactions", id, "resume"))

    def abort(self, id: str) -> Json:
        """Makes sure that an announced transaction is never committed; returns its entry.
        Idempotent."""
        return self.http.call("abort", "DELETE", path("v1", "transactions", id))

    def reserve(self, id: str, tables: list[str], lease_ms: int) -> Json:
        """Asks for a reservation of tables (uuids), or for a longer lease. Idempotent."""
        body = {"tables": tables, "lease_ms": lease_ms}
        return self.http.call("reserve", "PUT", path("v1", "reservations", id), body)

    def release(self, id: str) -> None:
        """Gives up a reservation. Idempotent."""
        self.http.call("release", "DELETE", path("v1", "reservations", id))

    def cut(self, tables: list[str], at_ms: int | None = None) -> list[CutEntry]:
        """Tables, by uuid or ``namespace.table``, with their latest versions at one moment: now, or
        ``at_ms``."""
        named = [table if is_uuid(table) else f"{self.catalog}.{table}" for table in tables]
        body = {"tables": named} | ({} if at_ms is None else {"at_ms": at_ms})
        response = self.http.call("snapshot", "POST", path("v1", "snapshots"), body)
        return [CutEntry(t["table_id"], t["name"], t["version"], t["timestamp"]) for t in response["tables"]]


@dataclass(frozen=True, slots=True)
class Commit:
    """A ratified commit, as the server has it.

    ``timestamp``: in-commit timestamp, ms since the epoch; ``modified``: ms since the epoch, the
    modification time that every client reports for its file; ``name``: file under
    ``_delta_log/_staged_commits``; ``size``: bytes, None when the response has none; ``kind``:
    "staged" or "inline"; ``published``: whether ``_delta_log`` has it; ``principal``: proposed it,
    None for the operator and for commits that the HEAD does not carry any more.
    """

    version: int
    timestamp: int
    name: str
    size: int | None
    modified: int
    kind: str
    txn_id: str | None
    operation: str | None
    changed: str | None
    published: bool
    principal: str | None = None

    @classmethod
    def read(cls, response: dict[str, Any]) -> Commit:
        """From a ``Commit`` of the HTTP API."""
        return cls(
            version=response["version"],
            timestamp=response["timestamp"],
            name=response["name"],
            size=response.get("size"),
            modified=response["modified"],
            kind=response["kind"],
            txn_id=response.get("txn_id"),
            operation=response.get("operation"),
            changed=response.get("changed"),
            published=bool(response.get("published", False)),
            principal=response.get("principal"),
        )


@dataclass(frozen=True, slots=True)
class Tail:
    """The ratified commits that a table still carries, ascending, with the state they were read
    in."""

    commits: tuple[Commit, ...]
    latest: int
    floor: int

    @classmethod
    def read(cls, response: dict[str, Any]) -> Tail:
        """From any response with ``commits``, ``latest`` and ``floor``."""
        return cls(tuple(Commit.read(c) for c in response["commits"]), response["latest"], response["floor"])


@dataclass(frozen=True, slots=True)
class CutEntry:
    """A table in a cut: its id, its name with the catalog, its version, and the in-commit timestamp
    (ms) of that."""

    table_id: str
    name: str
    version: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as loaded by name: identity, location, metadata and tail in one consistent view.
    ``location`` has the scheme that Spark uses. ``sent_ms``: ``time.time()`` in ms before the
    request was sent. ``pinned``: it is a clone, which shows version ``tail.latest`` of the log of
    another table and no other.
    """

    name: str
    table_id: str
    location: str
    etag: str
    created: int
    metadata: dict[str, Any]
    tail: Tail
    sent_ms: float = field(compare=False)
    pinned: bool = False

    @classmethod
    def read(cls, response: dict[str, Any], sent_ms: float) -> TableState:
        """From the response to a load by name."""
        return cls(
            name=response["name"],
            table_id=response["table_id"],
            location=spark_location(response["location"]),
            etag=response["etag"],
            created=response.get("created") or 0,
            metadata=response["metadata"],
            tail=Tail.read(response),
            sent_ms=sent_ms,
            pinned=response.get("state") == "pinned",
        )

    @classmethod
    def created_by(cls, content: str, name: str, table_id: str, location: str) -> TableState:
        """A table that the server does not have yet, as the content of its version 0 describes
        it."""
        actions = [json.loads(line) for line in content.split("\n") if line]
        metadata = next(action["metaData"] for action in actions if "metaData" in action)
        described = {
            "schema": json.loads(metadata["schemaString"]),
            "partition_columns": metadata.get("partitionColumns") or [],
            "properties": metadata.get("configuration") or {},
        }
        now = time.time() * 1000
        return cls(name, table_id, location, "", int(now), described, Tail((), 0, 0), now)


@dataclass(frozen=True, slots=True)
class Head:
    """The HEAD of a table. ``latest``: newest ratified version; ``floor``: version up to which all
    is published; ``timestamp``: in-commit timestamp of latest, ms; ``bytes``: the size of the row's
    unpublished commits; ``tail``: as :class:`Tail`.
    """

    table_id: str
    state: str
    latest: int
    floor: int
    timestamp: int | None
    etag: str
    location: str
    bytes: int
    row_id_high_water_mark: int | None
    tail: tuple[Commit, ...]

    @classmethod
    def read(cls, response: dict[str, Any]) -> Head:
        """From the response to ``GET /v1/tables/{id}/head``."""
        return cls(
            table_id=response["table_id"],
            state=response["state"],
            latest=response["latest"],
            floor=response["floor"],
            timestamp=response.get("timestamp"),
            etag=response["etag"],
            location=response["location"],
            bytes=response.get("bytes") or 0,
            row_id_high_water_mark=response.get("row_id_high_water_mark"),
            tail=tuple(Commit.read(c) for c in response["tail"]),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a proposal: "ratified" (with ``version``), "never", or "open" (it may still be
    ratified)."""

    outcome: str
    version: int | None
    latest: int


def spark_location(location: str) -> str:
    """The location as Spark reads it: Hadoop's S3 file system has the scheme ``s3a``."""
    return "s3a://" + location.removeprefix("s3://") if location.startswith("s3://") else location

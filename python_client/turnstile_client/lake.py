"""The connection to a server: tables by name, new tables, and the server's credentials for their
files."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from turnstile_client.errors import ApiError, ClientError, DataMismatch, Unsupported
from turnstile_client.files import stream_of
from turnstile_client.storage import Storage, Vended, checked_options
from turnstile_client.table import Table
from turnstile_http.api import Api, moment_body
from turnstile_http.branches import Branches
from turnstile_http.http import Http, now_ms, path
from turnstile_http.maintenance import TERM_S, DueWork, Job, Progress, TableRun
from turnstile_http.names import check_name, dotted_name
from turnstile_rows import commits
from turnstile_rows.definitions import new_definition
from turnstile_rows.schemas import delta_schema

_UNITY = ("api", "2.1", "unity-catalog")


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    catalog: str = "main",
    s3: Mapping[str, str] | None = None,
    deadline: float = 60.0,
) -> Lake:
    """Returns a catalog of a server; sends no request.

    Args:
        url: of the server, without ``/v1``; by default ``TURNSTILE_URL``.
        token: bearer token; by default ``TURNSTILE_TOKEN``, or none.
        catalog: the name of the catalog.
        s3: ``endpoint``, ``region``, and ``access_key``, ``secret_key``, ``session_token``, for
            tables on S3. Without keys the server is asked for some, for each table; if it vends
            none, the keys of the environment are used.
        deadline: seconds that one commit may take, with all retries.

    Raises:
        ValueError: there is no address, or ``s3`` has other members.
    """
    url = url or os.environ.get("TURNSTILE_URL", "")
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the address of a server: give url, or set TURNSTILE_URL")
    secret = token if token is not None else os.environ.get("TURNSTILE_TOKEN", "")
    return Lake(Api(Http(url, secret or None, deadline), check_name(catalog, "catalog")), checked_options(s3), deadline)


class Lake:
    """A catalog of a server. Made by :func:`connect`; ends its connections when it is closed, or
    with its ``with``."""

    def __init__(self, api: Api, s3: Mapping[str, str], deadline: float) -> None:
        self._api = api
        self._s3 = s3
        self._deadline = deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self._api.http.url}, {self._api.catalog})"

    def close(self) -> None:
        """Ends the connections. Idempotent."""
        self._api.http.close()

    def table(self, name: str) -> Table:
        """The table ``namespace.table``; sends no request. Raises :class:`DataMismatch` for an
        invalid name."""
        return Table(self._api, _full_name(name), self._storage, self._deadline)

    def tables(self, namespace: str) -> list[str]:
        """The names of the Delta tables in a namespace. Raises :class:`ApiError`."""
        return [name for name, _ in self._api.delta_tables(namespace)]

    def namespaces(self) -> list[str]:
        """The names of all namespaces, levels joined by dots. Raises :class:`ApiError`."""
        return self._api.namespaces()

    @property
    def branches(self) -> Branches:
        """The branches of the catalog: ``lake.branches.create("dev")``."""
        return Branches(self._api)

    def maintain(
        self,
        tables: Iterable[str] | None = None,
        *,
        term_s: float = TERM_S,
        dpus: float = 0,
        progress: Callable[[str, Progress], None] | None = None,
    ) -> Iterator[TableRun]:
        """Puts small files together and purges deletion vectors where that is due by the policies
        of tables (docs/maintenance.md), one table after the other, and yields the result for each.
        A table that fails is reported, and the others go on.

        Args:
            tables: ``namespace.table``; all Delta tables of the catalog without it.
            term_s: how many seconds a lease lasts. If a worker dies, another one can take the table
                after that time.
            dpus: the capacity of this process, for budgets of DPU-hours.
            progress: called with a table's name and each step.
        """
        if isinstance(tables, str):
            raise TypeError(f"tables={tables!r}: a list of names, as in [{tables!r}]")
        if tables is None:
            tables = (f"{namespace}.{name}" for namespace in self.namespaces() for name in self.tables(namespace))
        for name in tables:
            try:
                table = self.table(name)
                table_id = table.check_rewritable()
            except Unsupported as e:  # left to a worker with an engine: a failure would set the table aside for it, too
                yield TableRun(name, "unsupported", str(e))
                continue
            except (ClientError, ValueError, ApiError) as e:
                yield TableRun(name, "failed", str(e))
                continue
            operations = {"optimize": _job(partial(table.optimize, gradual=True)), "reorg": _job(table.reorg)}
            yield DueWork(
                self._api,
                name,
                table_id,
                operations,
                term_s=term_s,
                dpus=dpus,
                worded=(ValueError, ClientError, ApiError),
                progress=progress,
            ).run()

    def create_namespace(
        self, name: str, comment: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Creates a namespace in one that is there. Raises :class:`ApiError`: ``AlreadyExists``,
        ``NoSuchNamespace``, ..."""
        self._api.create_namespace(name, comment, dict(properties or {}))

    def drop_namespace(self, name: str) -> bool:
        """Drops an empty namespace; False where there is none. Raises :class:`ApiError`, such as
        ``NamespaceNotEmpty``."""
        return self._api.drop_namespace(name, cascade=False)

    def drop(self, name: str) -> bool:
        """Drops the table ``namespace.table``, which can be brought back for a while; False where
        there is none. Raises :class:`ApiError`."""
        namespace, _, table = _full_name(name).rpartition(".")
        return self._api.drop(namespace, table)

    def undrop(self, name: str, *, to: str | None = None, at: int | dt.datetime | None = None) -> Table:
        """Brings back the table that was dropped last under ``namespace.table``, with its rows and
        rights, and returns it. Possible until the server has begun to remove its files.

        Args:
            to: another full name, as when the old one is taken meanwhile.
            at: when the table was there, a time with its zone or a number of the catalog's log:
                needed where more than 1,000
                changes of the catalog followed the drop.

        Raises:
            ApiError: ``NoSuchTable``, ``AlreadyExists``, ``CannotUndrop``, ``LocationOwned``,
                ``PermissionDenied``, ...
            ValueError: ``at`` is a time without a zone.
        """
        namespace, _, table = _full_name(name).rpartition(".")
        parent, _, other = (None, "", None) if to is None else _full_name(to).rpartition(".")
        entry = self._api.undrop(namespace, table, name=other, to=parent, at=None if at is None else moment_body(at))
        return self.table(str(entry["name"]).partition(".")[2])

    def create(
        self,
        name: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Creates an empty table.

        Args:
            name: ``namespace.table``; the namespace has to be there.
            schema: Arrow's, or data with the columns of the table
                (:func:`turnstile_client.table.stream_of` lists the types).
            partition_by: names of partition columns.
            properties: of the table; Delta's own properties must be in ``SETTABLE``
                (:mod:`turnstile_rows.definitions`).
            comment: the purpose of the table.
            exist_ok: a table of that name is no error, also with other columns.

        Raises:
            DataMismatch: a column, partition column or property that a table cannot have.
            ApiError: ``AlreadyExists``, ``NoSuchNamespace``, ... or the server cannot be reached.
        """
        full = _full_name(name)
        namespace, _, table = full.rpartition(".")
        fields = delta_schema(schema if isinstance(schema, pa.Schema) else stream_of(schema).schema)
        new_definition(fields, tuple(partition_by), properties or {}, ())  # before anything is asked for
        try:
            self._register(
                namespace,
                table,
                fields=fields,
                partitions=tuple(partition_by),
                properties=properties or {},
                comment=comment,
            )
        except ApiError as e:
            if not (exist_ok and e.type == "AlreadyExists"):
                raise
        return self.table(full)

    def _register(
        self,
        namespace: str,
        table: str,
        *,
        fields: Mapping[str, Any],
        partitions: tuple[str, ...],
        properties: Mapping[str, str],
        comment: str | None,
    ) -> None:
        """Stages a table, writes its version 0, and gives it its name. A crash in between leaves a
        staged table, which the server removes."""
        staged = self._api.stage(namespace, table)
        definition = new_definition(fields, partitions, properties, tuple(staged["required_features"]))
        definition = replace(definition, properties={**staged["required_properties"], **properties})
        content = commits.version_zero(str(uuid.uuid4()), now_ms(), str(uuid.uuid4()), definition, comment)
        storage = Storage(staged["location"], self._s3, lambda: self._vended_for_staging(staged["table_id"]))
        storage.write(f"_delta_log/{0:020d}.json", content.encode())
        self._api.register(namespace, table, staged["table_id"])

    def _storage(self, table_id: str, location: str) -> Storage:
        return Storage(location, self._s3, lambda: self._vend(table_id))

    def _vend(self, table_id: str) -> Vended | None:
        """Credentials to read and write a table, or to read it where no more is permitted; None
        where the server vends none."""
        for operation in ("READ_WRITE", "READ"):
            body = {"table_id": table_id, "operation": operation}
            try:
                answer = self._api.http.call("credentials", "POST", path(*_UNITY, "temporary-table-credentials"), body)
            except ApiError as e:
                if e.status == 403 and operation == "READ_WRITE":
                    continue
                raise
            keys = answer.get("aws_temp_credentials")
            if not keys:
                return None
            expires = answer.get("expiration_time")
            token = keys.get("session_token") or None
            return Vended(keys["access_key_id"], keys["secret_access_key"], token, expires / 1000 if expires else None)
        return None

    def _vended_for_staging(self, table_id: str) -> Vended | None:
        route = path(*_UNITY, "delta", "v1", "staging-tables", table_id, "credentials")
        found = self._api.http.call("credentials", "GET", route).get("storage-credentials")
        if not found:
            return None
        config = found[0]["config"]
        expires = found[0].get("expiration-time-ms")
        token = config.get("s3.session-token") or None
        return Vended(
            config["s3.access-key-id"], config["s3.secret-access-key"], token, expires / 1000 if expires else None
        )


def _job(rewrite: Callable[..., Any]) -> Callable[[Job], object]:
    """Carries out a job by a method of its table."""
    return lambda job: rewrite(partitions=job.partitions, target_bytes=job.target_bytes, progress=job.report)


def _full_name(name: str) -> str:
    *levels, table = name.split(".")
    if not levels:
        raise DataMismatch(f"{name[:200]!r} is no table: write namespace.table")
    return f"{dotted_name(levels)}.{check_name(table, 'table')}"

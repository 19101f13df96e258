"""The user's objects: a lake (one catalog of a server, attached to Spark under a name), its tables,
and table builders.

This is the top of the package: :class:`Lake` assembles everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from pyspark.errors.exceptions import captured
from pyspark.java_gateway import ensure_callback_server_started

from turnstile_http.api import Api, Commit, Head, Outcome, moment_body
from turnstile_http.branches import Branches
from turnstile_http.errors import ApiError
from turnstile_http.http import Http
from turnstile_http.maintenance import Progress, Rewrite
from turnstile_spark import coordinator
from turnstile_spark.branches.checks import SparkBranches
from turnstile_spark.catalogs.sessions import SessionCatalogs
from turnstile_spark.context import LakeContext
from turnstile_spark.credentials import Credentials
from turnstile_spark.delta import table_methods
from turnstile_spark.errors import as_turnstile_error, install_converter, turnstile_error
from turnstile_spark.jvm import Jvm, let_java_exceptions_through
from turnstile_spark.maintenance.rewrites import ATTEMPTS as REWRITE_ATTEMPTS
from turnstile_spark.maintenance.rewrites import TARGET_BYTES, rewrite
from turnstile_spark.maintenance.vacuum import Vacuum, VacuumStep, vacuum
from turnstile_spark.planned_reads import read_planned
from turnstile_spark.selftest import check
from turnstile_spark.table_builder import TableBuilder
from turnstile_spark.transactions.conflicts.conflict_check import Isolation
from turnstile_spark.transactions.journal import AnnouncedTransaction
from turnstile_spark.transactions.recovery.replay import REPLAYS
from turnstile_spark.transactions.retries import ATTEMPTS, Runner
from turnstile_spark.transactions.scopes import scope_coordinator
from turnstile_spark.transactions.slack import Slack
from turnstile_spark.transactions.snapshot import Snapshot
from turnstile_spark.transactions.transaction import Transaction

T = TypeVar("T")


class Lake:
    """The result of :func:`turnstile_spark.attach`. SQL sees it as the catalog ``name``; this
    object is the Python side.

    Lists and tables are read from the server, always freshly. Methods raise
    :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(
        self, spark: Any, name: str, api: Api, token: str | None, *, inline_limit: int, vended: bool | None = None
    ) -> None:
        self.spark = spark
        self.name = name
        self.api = api
        self.jvm = Jvm(spark)
        check(self.jvm, spark)
        ensure_callback_server_started(self.jvm.gateway)  # type: ignore[no-untyped-call]
        let_java_exceptions_through(self.jvm.gateway)
        install_converter(coordinator.is_lake, coordinator.name_at)
        table_methods.install(coordinator.is_lake)
        credentials = Credentials(self.jvm, spark._jsparkSession, api, token, vended)
        self.context = LakeContext(spark, self.jvm, name, api, inline_limit=inline_limit, credentials=credentials)
        self._sessions = SessionCatalogs(self.context, token)
        self._token = token
        self._vended = vended
        self._runner = Runner(self.context, spark)

    def table(self, name: str) -> Table:
        """The table ``namespace.table``. Sends no request; the methods of the table raise
        ``AnalysisException`` (TABLE_OR_VIEW_NOT_FOUND) when there is none."""
        return Table(self.spark, self.context, name)

    def tables(self, namespace: str = "default") -> list[str]:
        """The names of the tables in ``namespace``, sorted."""
        try:
            return sorted(self.api.tables(namespace))
        except ApiError as e:
            raise as_turnstile_error(e) from None

    def namespaces(self) -> list[str]:
        """The names of all namespaces, levels joined by dots, sorted."""
        try:
            return sorted(self.api.namespaces())
        except ApiError as e:
            raise as_turnstile_error(e) from None

    @property
    def branches(self) -> Branches:
        """The branches of the catalog. ``attach`` with the ``full_name`` of one attaches it."""
        return SparkBranches(self.api, self._open_branch)

    def _open_branch(self, catalog: str) -> Lake:
        """A branch as a lake in a session of its own, to be detached after use."""
        api = Api(Http(self.api.http.url, self._token, self.api.http.deadline), catalog)
        session = type(self.spark).newSession(self.spark)
        limits: dict[str, Any] = {"inline_limit": self.context.inline_limit, "vended": self._vended}
        lake = Lake(session, f"{self.name}__check", api, self._token, **limits)
        lake.connect()
        return lake

    def find(self, query: str) -> list[dict[str, Any]]:
        """The matches of a path query (docs/path-queries.md), each with ``name``, ``kind``, ``id``
        and more. In a serializable transaction the catalog is read as of the transaction's first
        list, and the answer is checked when it commits.
        """
        try:
            scope = self.context.scopes.current()
            if scope is not None and scope.catalog_reads is not None:
                return scope.catalog_reads.find(query)
            return list(self.api.find(query))
        except ApiError as e:
            raise as_turnstile_error(e) from None

    def undrop(self, name: str, *, to: str | None = None, at: int | datetime | None = None) -> Table:
        """Brings back the table or view that was dropped last under ``namespace.table``, with its
        rows and rights, and returns it. Possible until the server has begun to remove its files.

        ``to``: another full name, as when the old one is taken meanwhile. ``at``: a time with its
        zone, or a number of the catalog's log, at which the table was there: needed where more than
        1,000 changes of the catalog followed the drop. Raises ``TURNSTILE_REFUSED`` inside of a
        transaction or snapshot, ``ValueError`` for a time without a zone, and
        :class:`TurnstileError` when the server refuses, such as by ``CannotUndrop`` and
        ``AlreadyExists``.
        """
        if self.context.scopes.current() is not None:
            text = f"undrop of {name} inside of a transaction or snapshot: run it before or after it"
            raise turnstile_error("TURNSTILE_REFUSED", text)
        old = self.table(name)
        new = old if to is None else self.table(to)
        moment = None if at is None else moment_body(at)
        try:
            self.api.undrop(old.namespace, old.name, name=new.name, to=new.namespace, at=moment)
        except ApiError as e:
            raise as_turnstile_error(e) from None
        return new

    def create(self, name: str) -> TableBuilder[Table]:
        """A builder for the new table ``namespace.table``, in the style of
        ``DeltaTable.create``."""
        return TableBuilder(self.table(name), "CREATE TABLE")

    def createIfNotExists(self, name: str) -> TableBuilder[Table]:
        """As :meth:`create`; does nothing when the table is there."""
        return TableBuilder(self.table(name), "CREATE TABLE IF NOT EXISTS")

    def createOrReplace(self, name: str) -> TableBuilder[Table]:
        """As :meth:`create`; replaces an existing table by one commit that keeps its history and
        id."""
        return TableBuilder(self.table(name), "CREATE OR REPLACE TABLE")

    def replace(self, name: str) -> TableBuilder[Table]:
        """As :meth:`createOrReplace`; the table must be there."""
        return TableBuilder(self.table(name), "REPLACE TABLE")

    def transaction(
        self,
        isolation: Isolation = "snapshot",
        tables: Iterable[str] = (),
        *,
        spark: Any = None,
        journal: bool = False,
        group_action: bool = False,
        replays: int = REPLAYS,
        replay_deadline_s: float | None = None,
        slack: Slack = 0,
        reserve: Iterable[str] = (),
    ) -> Transaction:
        """A transaction, for a ``with`` statement: the statements of this thread on tables of the
        lake inside are committed together at its end, or, after an exception, not at all. See
        docs/transactions.md.

        ``isolation``: "serializable" also demands that the tables which are only read have not
        changed. ``tables``: names (``namespace.table``) of the tables that join the cut at the
        beginning, in one request; others join it when they are used, if the tables used before have
        not changed. ``spark``: the session that it is for, if it is not the lake's own.
        ``journal``: announce it before it is sent, so that it can be finished or undone by its id
        when this process dies (:meth:`transactions`); one request more. ``group_action``: write the
        action ``transactionGroup`` into every commit, as an unsettled proposal for Delta's protocol
        has it. ``replays``: how often statements that were run with ``txn.sql`` may run again, in
        the same transaction, when it loses; ``replay_deadline_s``: none is begun later than this
        after the begin. ``slack``: under "serializable", by how many versions tables that are only
        read may be behind at the commit without a check of their reads: a number for all, or one by
        name (``{"namespace.table": 3}``). ``reserve``: names of tables that no other writer changes
        by a version while it lasts; it waits for them in line before it begins, and loses at most
        its turn when this process stalls.
        """
        return Transaction(
            self.context,
            spark or self.spark,
            isolation,
            tables,
            journal=journal,
            group_action=group_action,
            replays=replays,
            replay_deadline_s=replay_deadline_s,
            slack=slack,
            reserve=reserve,
        )

    def transactions(self, state: str | None = "open") -> list[AnnouncedTransaction]:
        """Announced transactions that this client may commit, by id: transactions that are open,
        "committed" or "aborted", or all (None)."""
        try:
            return [AnnouncedTransaction.read(self.api, entry) for entry in self.api.entries(state)]
        except ApiError as e:
            raise as_turnstile_error(e) from None

    def snapshot(self, *tables: str, at: str | datetime | int | None = None, spark: Any = None) -> Snapshot:
        """One cut over these tables (``namespace.table``), for a ``with`` statement: the statements
        of this thread inside read them as they were at one moment, and no other tables of the lake.

        ``at``: that moment, as a timestamp of Spark's SQL, a datetime, or ms since the epoch; else
        it is now. Each table is then read at its latest version with an in-commit timestamp that is
        not later.
        """
        return Snapshot(self.context, spark or self.spark, tables, at)

    def retry(
        self,
        fn: Callable[[Transaction], T],
        attempts: int = ATTEMPTS,
        isolation: Isolation = "snapshot",
        tables: Iterable[str] = (),
        slack: Slack = 0,
        *,
        fair_after: int | None = None,
    ) -> T:
        """Returns ``fn(transaction)``, run in a transaction that is committed after it; when that
        loses (a conflict, or a table that cannot join the cut), it is run again in a fresh one
        after a short random pause, at most ``attempts`` times in all. ``fair_after``: after so many
        runs that lost, the next one reserves the tables that they wrote, so that it loses no more.
        """
        return self._runner.retry(fn, attempts, isolation, tuple(tables), slack=slack, fair_after=fair_after)

    def transactional(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        attempts: int = ATTEMPTS,
        isolation: Isolation = "snapshot",
        slack: Slack = 0,
        fair_after: int | None = None,
    ) -> Any:
        """A decorator (with or without arguments): every call of the function is a transaction, run
        as by :meth:`retry`. In a thread that is in a transaction of the lake it is part of that."""

        def decorate(function: Callable[..., T]) -> Callable[..., T]:
            return self._runner.transactional(function, attempts, isolation, slack=slack, fair_after=fair_after)

        return decorate if fn is None else decorate(fn)

    def sql(
        self,
        text: str,
        attempts: int = ATTEMPTS,
        isolation: Isolation = "snapshot",
        *,
        slack: Slack = 0,
        fair_after: int | None = None,
    ) -> Any:
        """Runs a script ``BEGIN ATOMIC statement; ...; END`` (Spark's SQL scripting) as a
        transaction, as by :meth:`retry`, and any other text as ``spark.sql`` does. Returns the
        DataFrame of the script's last query.
        """
        return self._runner.sql(text, attempts, isolation, slack=slack, fair_after=fair_after)

    def foreach_batch(
        self, fn: Callable[[Any, int], Any], *, name: str | None = None, attempts: int = ATTEMPTS
    ) -> Callable[[Any, int], None]:
        """Returns a function for ``writeStream.foreachBatch``: ``fn(batch, batch_id)`` is run as a
        transaction, so all tables of a batch are committed together, and a batch that is run again,
        after a crash, changes nothing. ``name``: the stream's name in the tables, with the number
        of the batch (their action ``txn``); default the query's id, which is in its checkpoint.
        """
        return self._runner.foreach_batch(fn, name, attempts)

    def connect(self) -> None:
        """Makes Spark see the lake; :func:`turnstile_spark.attach` calls it. Detaches the lake that
        had the name."""
        coordinator.register(self.jvm, self.name)
        jvm = self.jvm
        name = self.name
        scope_coordinator.register(jvm, name, lambda: coordinator.attached_lake(jvm, name))
        replaced = coordinator.attach(self)
        if replaced is not None:
            replaced.detach()
        self._sessions.join(self.spark)

    def join(self, spark: Any) -> None:
        """Puts the lake into another session of the same JVM. ``spark.newSession()`` does it by
        itself; a session that was cloned in the JVM has the lake's configuration only. Raises
        ``TURNSTILE_DETACHED`` after :meth:`detach`.
        """
        self.context.check_open()
        self._sessions.join(spark)

    def detach(self) -> None:
        """Takes the catalog out of Spark and closes connections. Later use of its tables raises
        ``TURNSTILE_DETACHED``. Idempotent."""
        self._sessions.leave()
        coordinator.detach(self)
        self.context.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, catalog {self.api.catalog!r} of {self.api.http.url})"


class Table:
    """A table of a lake by name (``namespace.table``). The name is looked up at every call.

    All methods raise ``AnalysisException`` (TABLE_OR_VIEW_NOT_FOUND) when there is no such table
    and :class:`turnstile_spark.errors.TurnstileError` when the server refuses or cannot be reached.
    """

    def __init__(self, spark: Any, context: LakeContext, name: str) -> None:
        self._spark = spark
        self._context = context
        self.namespace, _, self.name = name.rpartition(".")
        self.namespace = self.namespace or "default"

    @property
    def sql_name(self) -> str:
        """The name to use in SQL, quoted."""
        return ".".join(f"`{part}`" for part in self._full_name)

    @property
    def id(self) -> str:
        """The table's uuid."""
        return self._call_with_id(lambda table_id: table_id)

    def to_df(self) -> Any:
        """The table as a Spark DataFrame."""
        return self._spark.table(self.sql_name)

    def planned(self, where: str | None = None, version: int | None = None) -> Any:
        """The table as a Spark DataFrame, of the files that the server plans: the driver reads no
        checkpoint, which takes most of the time for a table with hundreds of thousands of files.

        ``where``: a predicate in Spark's SQL, of which the plan uses the supported parts; it is a
        filter of the DataFrame. ``version``: else the latest. On a cluster
        ``spark.turnstile.plans.folder`` has to name a folder that executors can read. At most
        100,000 files; refused inside of a transaction or snapshot, since its reads are Delta's. See
        docs/planning.md.
        """
        if self._context.scopes.current(self._spark._jsparkSession) is not None:
            text = f"a planned read of {self.sql_name} inside of a transaction or snapshot: read the table by its name"
            raise turnstile_error("TURNSTILE_REFUSED", text)
        try:
            state = self._context.load(self.namespace, self.name)
            return read_planned(self._context, self._spark, state, where, version)
        except ApiError as e:
            raise self._error(e) from None

    def head(self) -> Head:
        """The table's HEAD as the server has it. Source: one consistent read of its row."""
        return self._call_with_id(self._context.api.head)

    def commits(self, start: int | None = None, end: int | None = None) -> list[Commit]:
        """The ratified commits that the HEAD still carries, ascending, from version ``start`` to
        ``end`` (inclusive). Older ones are published; :meth:`history` has them all."""
        return list(self._call_with_id(lambda table_id: self._context.api.commits(table_id, start, end)).commits)

    def history(self, limit: int | None = None) -> list[Any]:
        """Rows of ``DESCRIBE HISTORY``, newest first, at most ``limit``. Source: the Delta log,
        read by Delta."""
        clause = "" if limit is None else f" LIMIT {int(limit)}"
        return self._spark.sql(f"DESCRIBE HISTORY {self.sql_name}{clause}").collect()  # type: ignore[no-any-return]

    def outcome(self, version: int, txn_id: str | None = None, name: str | None = None) -> Outcome:
        """The outcome of a proposed commit, known by its transaction id or its staged file name."""
        return self._call_with_id(lambda table_id: self._context.api.outcome(table_id, version, txn_id, name))

    def publish(self) -> dict[str, int]:
        """Publishes all ratified commits now. Returns ``published`` (how many), ``floor`` and
        ``latest`` (versions)."""
        return self._call_with_id(self._context.api.publish)

    def optimize(
        self,
        where: str | None = None,
        z_order_by: Sequence[str] = (),
        target_bytes: int = TARGET_BYTES,
        *,
        full: bool = False,
        attempts: int = REWRITE_ATTEMPTS,
        progress: Callable[[Progress], None] | None = None,
    ) -> Rewrite:
        """Makes few large files of many small ones, as Delta's OPTIMIZE does; of a clustered table,
        clusters them.

        ``where``: a predicate on partition columns. ``z_order_by``: columns to sort all files by,
        one bin for each partition. ``target_bytes``: smaller files are put together up to this
        size. ``full``: of a clustered table, all files. Each bin is one commit: after an exception
        the committed bins stay, and a second call does the rest. A bin is planned anew if another
        commit changed its files, in at most ``attempts`` rounds that lost. ``progress`` is called
        at every step; its exception ends the run. Raises ``ValueError`` and ``TypeError`` for
        arguments, ``TURNSTILE_REFUSED`` inside of a transaction and for tables with unknown
        features. See docs/maintenance.md.
        """
        options: dict[str, Any] = {"where": where, "z_order_by": z_order_by, "target_bytes": target_bytes, "full": full}
        return rewrite(
            self._context, self._spark, self.sql_name, "optimize", attempts=attempts, progress=progress, **options
        )

    def reorg(
        self,
        purge: bool = True,
        where: str | None = None,
        target_bytes: int = TARGET_BYTES,
        *,
        attempts: int = REWRITE_ATTEMPTS,
        progress: Callable[[Progress], None] | None = None,
    ) -> Rewrite:
        """Rewrites the files that have deletion vectors or dropped columns without these, as
        Delta's REORG ... APPLY (PURGE) does. Otherwise as :meth:`optimize`. ``purge``: there is
        nothing else that it does; False is refused with ``ValueError``.
        """
        if purge is not True:
            raise ValueError("reorg(purge=True): purging is all that it does")
        options: dict[str, Any] = {"where": where, "target_bytes": target_bytes}
        return rewrite(
            self._context, self._spark, self.sql_name, "reorg", attempts=attempts, progress=progress, **options
        )

    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = False,
        lite: bool = False,
        inventory: Any = None,
        *,
        allow_short: bool = False,
        progress: Callable[[VacuumStep], None] | None = None,
    ) -> Vacuum:
        """VACUUM: removes files that no version needs which a reader, a clone, a snapshot, a
        transaction or time travel pins.

        ``retention_hours``: how long files stay after they were removed from the table, or written
        by a failed commit; default: the table's ``delta.deletedFileRetentionDuration``. Less than
        168 needs ``allow_short``. ``dry_run``: removes nothing, and lists the files. ``lite``: only
        files that commits removed, taken from the log instead of a listing. ``inventory``: a
        DataFrame of files instead of a listing (``path``, ``length``, ``isDir``,
        ``modificationTime``). ``progress`` is called at every step; its exception ends the run.
        Raises ``TURNSTILE_REFUSED`` inside of a transaction, for short retentions, and for tables
        with unknown features. See docs/maintenance.md.
        """
        try:
            table_id = self._context.load(self.namespace, self.name).table_id
            return vacuum(
                self._context,
                self._spark,
                self.sql_name,
                table_id,
                retention_hours=retention_hours,
                dry_run=dry_run,
                lite=lite,
                inventory=inventory,
                allow_short=allow_short,
                progress=progress,
            )
        except ApiError as e:
            raise self._error(e) from None

    def drop(self) -> bool:
        """Drops the table (its files are kept for the server's grace period). False when there was
        none."""
        try:
            return self._context.api.drop(self.namespace, self.name)
        except ApiError as e:
            raise self._error(e) from None

    @property
    def _full_name(self) -> tuple[str, ...]:
        return (self._context.name, *self.namespace.split("."), self.name)

    def _call_with_id(self, call: Callable[[str], T]) -> T:
        try:
            return call(self._context.load(self.namespace, self.name).table_id)
        except ApiError as e:
            raise self._error(e) from None

    def _error(self, e: ApiError) -> Exception:
        if e.type in ("NoSuchTable", "NoSuchNamespace"):
            return captured.convert_exception(self._context.throw.no_such_table(*self._full_name).java_exception)
        return as_turnstile_error(e)

    def __repr__(self) -> str:
        return f"Table({self.sql_name})"

"""A scope: the view of one thread's statements between the begin and the end of a transaction (or
of a snapshot).

Every table is read at one version, the *cut*, plus the held commits of the transaction. Delta keeps
a ``DeltaLog`` per path and file system options; the tables of a scope have an option of their own,
so their logs are the scope's alone: no other statement of the application sees the held commits,
and closing the scope leaves nothing of it.

A thread is in a scope while Spark's local property :func:`property_of` has the scope's id:
callbacks of the JVM arrive on other Python threads, but the JVM thread they come from is the
statement's.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from turnstile_http.api import Commit, TableState, Tail
from turnstile_http.errors import ApiError
from turnstile_http.http import now_ms
from turnstile_spark.delta.log_files import Write
from turnstile_spark.errors import CONFLICT, TurnstileError, turnstile_error
from turnstile_spark.jvm import JavaObject
from turnstile_spark.names import location_key
from turnstile_spark.transactions.conflicts.fold import commit_info
from turnstile_spark.transactions.reads.catalog_reads import CatalogReadLog
from turnstile_spark.transactions.scopes.catalog_changes import CatalogChanges, MovedTable, Name, NewNamespace, NewTable

#: File system option that sets the logs of a scope apart.
OPTION = "fs.turnstile.scope"
#: Set in the sessions that Spark clones for streams.
STREAM = "spark.turnstile.stream"


def property_of(lake: str) -> str:
    """The local property that names the scope of a thread."""
    return f"turnstile.scope.{lake}"


def catalog_of(lake: str) -> str:
    """The name of the catalog, and of the commit coordinator, of all scopes of a lake."""
    return f"{lake}__scope"


def lake_of_catalog(name: str) -> str:
    """The lake that a catalog is of: the lake's own, or that of its scopes."""
    return name.removesuffix("__scope")


def is_catalog_of_scopes(name: str) -> bool:
    """Whether a lake cannot have this name, because the scopes of another may."""
    return name.endswith("__scope")


@dataclass(frozen=True, slots=True)
class Held:
    """A held commit: only the scope knows it. Its file is in ``_staged_commits``."""

    commit: Commit
    content: str

    @classmethod
    def of(cls, version: int, content: str) -> Self:
        """A commit with this content as ``version``, with a file of its own."""
        info = commit_info(content)
        now = now_ms()
        name = f"{version:020d}.{uuid.uuid4()}.json"
        size = len(content.encode())
        operation = info.get("operation")
        return cls(
            Commit(version, info["inCommitTimestamp"], name, size, now, "held", info["txnId"], operation, None, False),
            content,
        )


@dataclass(slots=True)
class ScopedTable:
    """A table in a scope. ``base``: its version in the cut; ``state``: the table as it was loaded;
    ``held``: commits ``base`` + 1 and up; ``first``: version 0, if the transaction creates the
    table. Its ``base`` is 0; ``origin``: the option of the scope that made the snapshot which its
    log has of ``base``, if scopes share that.
    """

    state: TableState
    base: int
    held: list[Held] = field(default_factory=list)
    described: tuple[int, JavaObject] | None = None  # in which epoch, and Spark's V1Table
    files: Write | None = None  # how the last commit's file was written
    delta_log: JavaObject | None = None  # Delta's, of the present epoch
    first: Write | None = None
    origin: str | None = None

    @property
    def latest(self) -> int:
        """The newest version that the scope sees."""
        return self.base + len(self.held)

    @property
    def version(self) -> int:
        """The version that the table gets by its held commits."""
        return self.base + 1 if self.first is None else 0

    @property
    def contents(self) -> list[str]:
        """The held commits, in their order: the contents of :attr:`version` and up."""
        return [*([] if self.first is None else [self.first.content]), *(held.content for held in self.held)]

    @property
    def tail(self) -> Tail:
        """The commits that ``_delta_log`` may not have, and the latest version, as the scope sees
        them."""
        commits = tuple(c for c in self.state.tail.commits if c.version <= self.base)
        return Tail(commits + tuple(h.commit for h in self.held), self.latest, min(self.state.tail.floor, self.base))


@dataclass(frozen=True, slots=True)
class Mark:
    """How much a scope held at a point: commits by table id, and changes of the catalog."""

    commits: dict[str, int]
    changes: int


class Scope:
    """One scope of a lake. Thread-safe.

    ``session``: the JVM session that it was opened in; ``load``: loads a table by namespace and
    name from the server; ``latest``: the latest version of each of these tables, by id, at one
    moment; ``cut``: versions by table id, if they were chosen when the scope was opened;
    ``is_writable``: False for a snapshot; ``fixed_catalog``: why the catalog cannot be changed in
    it (empty: it can).
    """

    def __init__(
        self,
        lake: str,
        session: JavaObject,
        load: Callable[[str, str], TableState],
        latest: Callable[[list[str]], dict[str, int]],
        *,
        cut: Mapping[str, int] | None = None,
        is_writable: bool = True,
        fixed_catalog: str = "",
    ) -> None:
        self.id = str(uuid.uuid4())
        self.lake = lake
        self.session = session
        self.is_writable = is_writable
        self.fixed_catalog = fixed_catalog
        self._load = load
        self._latest = latest
        self._changes = CatalogChanges()
        #: What is read of the catalog, where that is checked at the end.
        self.catalog_reads: CatalogReadLog | None = None
        self._cut = dict(cut or {})
        self._names: dict[tuple[str, str], str] = {}
        self._tables: dict[str, ScopedTable] = {}
        self._logs: dict[str, str] = {}
        self._clones: set[str] = set()
        self._staged: set[str] = set()
        self._delta_logs: list[JavaObject] = []
        self._epoch = 0
        self._lock = threading.RLock()
        self.is_open = True

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def options(self) -> dict[str, str]:
        """The file system options of the scope's tables. Delta's own writing of checksums fails
        with the second, at once and without a trace (see
        :mod:`turnstile_spark.delta.checksums`): a held version is not yet that version of the
        table.
        """
        missing = "checksums.of.held.versions.are.not.written"
        with self._lock:
            own = {OPTION: f"{self.id}.{self._epoch}"}
        return own | {
            f"fs.AbstractFileSystem.{scheme}.impl": missing for scheme in ("file", "s3a", "hdfs", "abfss", "gs")
        }

    def tables(self) -> dict[str, ScopedTable]:
        """The tables of the scope, by id, in the order in which they were used."""
        with self._lock:
            return dict(self._tables)

    def state(self, namespace: str, name: str) -> TableState:
        """The table as the scope has it; loads it, and brings it into the cut, when it is used for
        the first time.

        Raises :class:`turnstile_http.errors.ApiError` as loading does, and :class:`TurnstileError`
        when the table cannot join the cut.
        """
        with self._lock:
            if not self.is_open:
                raise over()
            at = self._changes.origin(Name(namespace, name))
            table_id = self._names.get((at.namespace, at.table))
            if table_id is not None:
                return self._tables[table_id].state
            state = self._load_named(at)
            if state.pinned:  # the version that a clone shows never changes
                self._clones.add(location_key(state.location))
                return state
            if state.table_id not in self._tables:
                table = ScopedTable(state, self._base_of(state))
                self._tables[state.table_id] = table
                self._logs[location_key(state.location)] = state.table_id
            self._names[at.namespace, at.table] = state.table_id
            return self._tables[state.table_id].state

    def _load_named(self, name: Name) -> TableState:
        """Loads a table, and records the table of its name."""
        try:
            state = self._load(name.namespace, name.table)
        except ApiError as e:
            if self.catalog_reads is not None and e.type in ("NoSuchTable", "NoSuchNamespace"):
                self.catalog_reads.name(name.namespace, name.table, "")
            raise
        if self.catalog_reads is not None:
            self.catalog_reads.name(name.namespace, name.table, state.table_id)
        return state

    def _base_of(self, state: TableState) -> int:
        """The version at which a table that was just loaded is read."""
        if (base := self._cut.get(state.table_id)) is not None:
            return base
        if not self.is_writable:
            text = (
                f"'{state.name}' is not in this snapshot: name all its tables, lake.snapshot(..., "
                f"'{_short(state.name)}')"
            )
            raise turnstile_error("TURNSTILE_REFUSED", text)
        others = {table_id: table.base for table_id, table in self._tables.items() if table.first is None} | self._cut
        # The versions of the others were the latest before this one was loaded. If they are still,
        # they were at that moment.
        now = self._latest(list(others)) if others else {}
        changed = [table_id for table_id, base in others.items() if now.get(table_id) != base]
        if changed:
            names = ", ".join(sorted(self._tables[i].state.name if i in self._tables else i for i in changed))
            text = (
                f"'{state.name}' cannot join the transaction: {names} changed since it was read, so there is no moment "
                f"at which "
                "both were as the transaction sees them. Run it again (lake.retry does), or name the tables when it "
                "begins"
            )
            raise turnstile_error(CONFLICT, text)
        return state.tail.latest

    def at(self, log_path: str) -> ScopedTable | None:
        """Returns the table of this log; None when the scope has none there."""
        with self._lock:
            table_id = self._logs.get(location_key(log_path))
            return self._tables.get(table_id) if table_id else None

    def shows_clone_at(self, log_path: str) -> bool:
        """Whether a clone that was read in the scope shows a version of this log."""
        with self._lock:
            return location_key(log_path) in self._clones

    def cached_description(self, state: TableState, describe: Callable[[], JavaObject]) -> JavaObject:
        """The cached result of ``describe`` for this table, valid while the scope's logs do not
        change."""
        with self._lock:
            table = self._tables[state.table_id]
            epoch = self._epoch
            if table.described is None or table.described[0] != epoch:
                table.described = epoch, describe()
            return table.described[1]

    # -- writing -------------------------------------------------------------------------------------------------------

    def hold(self, table: ScopedTable, held: Held, file: Write) -> bool:
        """Holds a commit, whose file is written; False when the scope has that version already
        (another thread of it was first)."""
        with self._lock:
            if not self.is_open:
                raise over()
            if self._changes.moves(table.state.table_id):
                raise _moved_error(table.state.name)
            if held.commit.version != table.latest + 1:
                return False
            table.held.append(held)
            table.files = file
            return True

    def is_own(self, table: ScopedTable, option: str) -> bool:
        """Whether a commit to ``table`` which arrives with this option is of the scope's present
        log: a log before a rollback to a savepoint had another."""
        with self._lock:
            is_first = not table.held and option == table.origin
            return is_first or option == self.options[OPTION]

    def took_log(self, table: ScopedTable, delta_log: JavaObject) -> None:
        """Remembers a table's ``DeltaLog``, which is to be dropped with the scope."""
        with self._lock:
            table.delta_log = delta_log
            self._delta_logs.append(delta_log)

    def give_logs(self) -> list[JavaObject]:
        """The logs to drop, once."""
        with self._lock:
            logs = self._delta_logs
            self._delta_logs = []
            return logs

    def written_tables(self) -> dict[str, ScopedTable]:
        """The tables with held commits, by id, including created tables."""
        return {table_id: table for table_id, table in self.tables().items() if table.contents}

    def mark(self) -> Mark:
        """How much is held: for :meth:`go_back`."""
        with self._lock:
            return Mark({table_id: len(table.held) for table_id, table in self._tables.items()}, len(self._changes))

    def go_back(self, mark: Mark) -> None:
        """Drops the commits and changes that are held since :meth:`mark`. The tables get new logs,
        perhaps with other versions."""
        with self._lock:
            for table_id, table in self._tables.items():
                del table.held[mark.commits.get(table_id, 0) :]
            self._changes.go_back(mark.changes)
            created = {change.table_id for change in self._changes.new_tables()}
            gone = {table_id for table_id, table in self._tables.items() if table.first and table_id not in created}
            self._tables = {table_id: table for table_id, table in self._tables.items() if table_id not in gone}
            self._names = {name: table_id for name, table_id in self._names.items() if table_id not in gone}
            self._epoch += 1

    # -- changing the catalog ------------------------------------------------------------------------------------------

    def move(self, state: TableState, old: Name, new: Name | None) -> None:
        """Holds the rename of a table, or its drop (``new`` None). Raises :class:`TurnstileError`
        when the transaction has written or moved it: a table is changed in one way by a
        transaction.
        """
        with self._lock:
            if not self.is_open:
                raise over()
            table = self._tables.get(state.table_id)
            if self._changes.moves(state.table_id) or (table is not None and table.contents):
                raise _moved_error(state.name)
            self._changes.add(MovedTable(state.table_id, old, new))

    def stage(self, location: str) -> None:
        """Takes note of where a table is about to be created."""
        with self._lock:
            self._staged.add(location_key(location))

    def staged_at(self, log_path: str) -> bool:
        """Whether this is the log of a table that was, or is about to be, created in the scope."""
        with self._lock:
            return location_key(log_path) in self._staged

    def create(self, state: TableState, name: Name, first: Write) -> None:
        """Holds the creation of a table. ``state``: as version 0 (``first``), which is written,
        describes it."""
        with self._lock:
            if not self.is_open:
                raise over()
            self._changes.add(NewTable(state.table_id, name))
            self._tables[state.table_id] = ScopedTable(state, 0, first=first)
            self._logs[location_key(state.location)] = state.table_id
            self._names[name.namespace, name.table] = state.table_id

    def create_namespace(self, namespace: NewNamespace) -> None:
        """Holds the creation of a namespace."""
        with self._lock:
            if not self.is_open:
                raise over()
            self._changes.add(namespace)

    @property
    def changes(self) -> CatalogChanges:
        """The changes of the catalog that are held."""
        return self._changes

    def at_cut(self, cut: Mapping[str, int]) -> Scope:
        """A fresh scope of the same tables at another cut, without held commits. ``cut``: their
        versions, by id. Tables with another version are loaded anew. Raises
        :class:`turnstile_http.errors.ApiError` as loading does, and :class:`TurnstileError` when a
        name leads to another table now.
        """
        scope = Scope(
            self.lake,
            self.session,
            self._load,
            self._latest,
            cut=cut,
            is_writable=self.is_writable,
            fixed_catalog=self.fixed_catalog,
        )
        with self._lock:
            for (namespace, name), table_id in self._names.items():
                table = self._tables[table_id]
                is_same = table.base == cut[table_id]
                state = table.state if is_same else self._load(namespace, name)
                if state.table_id != table_id:
                    raise turnstile_error(CONFLICT, f"'{state.name}' is another table since the transaction used it")
                scope._names[namespace, name] = table_id
                scope._logs[location_key(state.location)] = table_id
                scope._tables.setdefault(
                    table_id, ScopedTable(state, cut[table_id], files=table.files, delta_log=table.delta_log)
                )
            scope._clones |= self._clones
            scope.catalog_reads = self.catalog_reads  # what statements that are kept have read is still to be checked
        return scope

    def close(self) -> None:
        """Ends the scope: nothing more is read or held in it. Idempotent."""
        with self._lock:
            self.is_open = False


class Scopes:
    """The open scopes of one lake, and the one that the calling JVM thread is in. Thread-safe."""

    def __init__(self, lake: str, context: JavaObject) -> None:
        self._property = property_of(lake)
        self._context = context
        self._open: dict[str, Scope] = {}
        self._used = False  # no thread has the property before that

    def enter(self, scope: Scope) -> None:
        """Puts the calling thread into a scope. Raises :class:`TurnstileError` when it is in
        one."""
        if self._context.getLocalProperty(self._property) in self._open:
            text = (
                "this thread is in a transaction or a snapshot of this lake already: they do not nest (txn.savepoint() "
                "does)"
            )
            raise turnstile_error("TURNSTILE_REFUSED", text)
        self._used = True
        self._open[scope.id] = scope
        self._context.setLocalProperty(self._property, scope.id)

    def leave(self, scope: Scope) -> None:
        """Takes the calling thread out of a scope and closes it. Idempotent."""
        scope.close()
        self._open.pop(scope.id, None)
        if self._context.getLocalProperty(self._property) == scope.id:
            self._context.setLocalProperty(self._property, None)

    def current(self, session: JavaObject | None = None) -> Scope | None:
        """The scope of the calling JVM thread in ``session``; None when it is in none. A stream's
        session is in no scope but one that was opened in it: the thread of a stream inherits the
        property of the thread that started it.

        Raises :class:`TurnstileError` when the scope is over: a thread that was started in it goes
        on.
        """
        scope_id = self._context.getLocalProperty(self._property) if self._used else None
        if not scope_id:
            return None
        scope = self._open.get(scope_id)
        if (
            session is not None
            and str(session.conf().get(STREAM, ""))
            and not (scope and scope.session.equals(session))
        ):
            return None
        if scope is None:
            raise over()
        return scope


def over() -> TurnstileError:
    """The error for an operation in a closed scope, or with a DataFrame of one."""
    text = "the transaction or snapshot that this thread or DataFrame belongs to is over: read its tables again"
    return turnstile_error("TURNSTILE_TRANSACTION_OVER", text)


def _moved_error(name: str) -> TurnstileError:
    """For a table that is renamed or dropped, and written or renamed as well."""
    text = (
        f"'{name}' is written, renamed or dropped by this transaction already, or created by it: it does one of these "
        f"to a table, and "
        "once. Do the other in a transaction of its own"
    )
    return turnstile_error("TURNSTILE_REFUSED", text)


def _short(name: str) -> str:
    return name.partition(".")[2]

"""The net change of several commits of a table, whether it can be put on top of commits of others,
and its actions for the log of the catalog's table. Pure (I28).

Two branches of a log are put together only where each can be carried out after the other: neither
changes the table's definition, no file is changed by both, the branch's operations did not look
for rows that the catalog's table got meanwhile, and no append of the branch read rows that the
catalog's table lost. Everything else is a conflict.

Sources: Delta protocol, "Add File and Remove File", "Row Tracking"; Delta's ``ConflictChecker``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Final

import msgspec

from turnstile.branches.core.paths import Action
from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.definition import BRANCHES_DOMAIN, ROW_TRACKING_DOMAIN
from turnstile.delta.core.segments import vector_id
from turnstile.store.core.errors import UnsupportedTable

FileKey = tuple[str, str]
"""Path and id of the deletion vector: a logical file."""

PROMOTE: Final = "PROMOTE BRANCH"
"""The operation of the commit of a promotion."""
UPDATE: Final = "UPDATE BRANCH"
"""The operation of the commit that takes over changes of the catalog's table."""

_DELETE: Final = "DELETE"
"""The operation of which every added row was in the table before: it writes files without the
deleted rows, or with a larger deletion vector."""
_BY_FILE: Final = (_DELETE, "UPDATE", "MERGE")
"""Operations that change the files of the rows that they depend on."""
_MERGED_DOMAINS: Final = (ROW_TRACKING_DOMAIN, BRANCHES_DOMAIN)
"""Domains that are no part of the definition: a commit of a net change gets them anew, of the table
of its log."""


class NetChange:
    """The effect of commits that follow each other, taken in their order.

    Attributes:
        added, removed: the actions of files that are there after them and not before, or before and
            not after.
        definition: the actions ``protocol`` and ``metaData`` that count, by name.
        domains, transactions: the last ``domainMetadata`` and ``txn`` by domain and application.
        versions: the number of the first and the last commit; None for none.
        blind: whether they only added rows, without a look at the table.
        changes_rows: whether one of them changed rows; otherwise they only wrote them anew.
        brings_rows: whether one of them can have added rows that were not in the table before.
        finds_rows: whether one of them that changed rows can depend on rows that it looked for.
        reads_rows: whether one of these can depend on rows of files that it did not change.
        operations: their operations, each once.
    """

    def __init__(self) -> None:
        self.added: dict[FileKey, Action] = {}
        self.removed: dict[FileKey, Action] = {}
        self.definition: dict[str, Action] = {}
        self.domains: dict[str, Action] = {}
        self.transactions: dict[str, Action] = {}
        self.versions: tuple[int, int] | None = None
        self.blind = True
        self.changes_rows = False
        self.brings_rows = False
        self.finds_rows = False
        self.reads_rows = False
        self.operations: list[str] = []
        self._operation = ""
        self._appends = False

    def take(self, version: int, actions: Iterable[Action]) -> None:
        """Adds the commit ``version``."""
        self.versions = (self.versions[0] if self.versions else version, version)
        self._operation = ""
        self._appends = False
        for action in actions:
            for name, body in action.items():
                self._take(name, body)

    def _take(self, name: str, body: Action) -> None:
        match name:
            case "commitInfo":
                operation = str(body.get("operation") or "unknown")
                if operation not in self.operations:
                    self.operations.append(operation)
                self._operation = operation
                self._appends = body.get("isBlindAppend") is True
                self.blind = self.blind and self._appends
            case "add":
                self._add(body)
            case "remove":
                self._remove(body)
            case "protocol" | "metaData":
                self.definition[name] = body
                self.blind = False
            case "domainMetadata" if body.get("domain") not in _MERGED_DOMAINS:
                self.domains[str(body.get("domain"))] = body
                self.blind = False
            case "txn":
                self.transactions[str(body.get("appId"))] = body

    def _add(self, body: Action) -> None:
        if body.get("dataChange"):
            self._change_rows()
            self.brings_rows = self.brings_rows or self._operation != _DELETE
        key = key_of(body)
        if self.removed.pop(key, None) is None:
            self.added[key] = body

    def _remove(self, body: Action) -> None:
        self.blind = False
        if body.get("dataChange"):
            self._change_rows()
        key = key_of(body)
        if self.added.pop(key, None) is None:
            self.removed[key] = body

    def _change_rows(self) -> None:
        self.changes_rows = True
        if not self._appends:
            self.finds_rows = True
            self.reads_rows = self.reads_rows or self._operation not in _BY_FILE

    @property
    def files(self) -> int:
        """The number of files that are added or removed."""
        return len(self.added) + len(self.removed)

    @property
    def is_empty(self) -> bool:
        """Whether the table is the same after them."""
        return not (self.added or self.removed or self.definition or self.domains or self.transactions)


def key_of(body: Action) -> FileKey:
    """Returns the logical file of an ``add`` or ``remove`` action."""
    vector = body.get("deletionVector")
    return str(body["path"]), vector_id(None if vector is None else msgspec.convert(vector, DeletionVector))


def rows_in(body: Action) -> int | None:
    """Returns the rows of a file that are not deleted, by an ``add`` or ``remove``; None where it
    has no statistics."""
    rows = _records_in(body)
    vector = body.get("deletionVector")
    return None if rows is None else rows - int(vector["cardinality"] if vector else 0)


def _records_in(body: Action) -> int | None:
    try:
        rows = msgspec.json.decode(body.get("stats") or "{}").get("numRecords")
    except (msgspec.DecodeError, AttributeError):
        rows = None
    return rows if type(rows) is int else None


def conflict_of(branch: NetChange, catalog: NetChange, name: str) -> str | None:
    """Returns the reason why the change of a branch cannot be put on top of the change of the
    catalog's table ``name`` since the branch's base; None if it can. ``branch`` has the paths of
    the catalog's table."""
    if catalog.versions is None or branch.is_empty:
        return None
    since = _versions(catalog)
    if catalog.definition or catalog.domains:
        return f"the definition of '{name}' was changed in {since} ({_operations(catalog)})"
    if branch.definition or branch.domains:
        return f"the branch changes the definition of '{name}', which got {since} meanwhile ({_operations(catalog)})"
    theirs = {path for path, _ in catalog.removed}
    both = sorted(path for path, _ in branch.removed if path in theirs)
    if both:
        return (
            f"the branch ({_operations(branch)}) and {since} ({_operations(catalog)}) changed '{both[0]}' of '{name}'"
        )
    if branch.finds_rows and catalog.brings_rows and _changes_rows(catalog.added):
        problem = f"'{name}' got rows in {since} ({_operations(catalog)})"
        return f"{problem}, which the branch's operations ({_operations(branch)}) did not see"
    if branch.reads_rows and _changes_rows(catalog.removed):
        problem = f"'{name}' lost rows in {since} ({_operations(catalog)})"
        return f"{problem}, which the branch's operations ({_operations(branch)}) may have read"
    apps = sorted(branch.transactions.keys() & catalog.transactions.keys())
    if apps:
        return f"the branch and {since} of '{name}' carry transactions of the application '{apps[0][:100]}'"
    return None


def _changes_rows(files: Mapping[FileKey, Action]) -> bool:
    return any(body.get("dataChange") for body in files.values())


def files_with_same_ids(branch: NetChange, catalog: NetChange) -> list[Action]:
    """Returns the new files of a branch's table with row tracking that need other row ids before it
    takes over the change of the catalog's table: new files of both have ids from the same range."""
    if not _new_files(catalog):
        return []
    new = _new_files(branch)
    return [body for (path, _), body in branch.added.items() if path in new]


def _new_files(change: NetChange) -> set[str]:
    return {path for path, _ in change.added} - {path for path, _ in change.removed}


def _versions(change: NetChange) -> str:
    first, last = change.versions or (0, 0)
    return f"version {first}" if first == last else f"versions {first} to {last}"


def _operations(change: NetChange) -> str:
    return ", ".join(change.operations[:5])


def moved_change(change: NetChange, relocate: Callable[[Action], Action]) -> NetChange:
    """Returns a change with the paths of another table's log, by ``relocate``."""
    moved = copy(change)
    moved.added = {}
    moved.removed = {}
    for source, target in ((change.added, moved.added), (change.removed, moved.removed)):
        for body in source.values():
            action = relocate(body)
            target[key_of(action)] = action
    return moved


class RowIds(msgspec.Struct):
    """The next row id of a table with row tracking, and the version that new files get; None
    without row tracking."""

    next: int | None
    version: int

    def assign(self, body: Action) -> Action:
        """Returns the ``add`` action of a new file with row ids. Raises UnsupportedTable for one
        without the number of its rows."""
        if self.next is None:
            return body
        rows = _records_in(body)
        if rows is None:
            problem = f"row tracking needs the number of rows of '{body['path']}', which has no statistics"
            raise UnsupportedTable(problem, field="table", remedy="write the file with statistics")
        first = self.next
        self.next += rows
        return {**body, "baseRowId": first, "defaultRowCommitVersion": self.version}


def commit_lines(
    info: Action,
    change: NetChange,
    new_files: Collection[FileKey],
    ids: RowIds,
    renumbered: Iterable[Action] = (),
) -> bytes:
    """Returns the content of the commit with a moved change. ``new_files``: the files that get row
    ids, as the branch wrote them; ``renumbered``: files of the table that get other ones."""
    actions: list[Action] = [{"commitInfo": info}]
    actions += [{name: change.definition[name]} for name in ("protocol", "metaData") if name in change.definition]
    actions += [{"txn": body} for body in change.transactions.values()]
    actions += [{"domainMetadata": body} for body in change.domains.values()]
    tracked = ids.next is not None
    for body in change.removed.values():
        actions.append({"remove": {**body, "dataChange": change.changes_rows}})
    for key, body in change.added.items():
        added = ids.assign(body) if key in new_files else body
        actions.append({"add": {**added, "dataChange": change.changes_rows}})
    actions += [{"add": {**ids.assign(body), "dataChange": False}} for body in renumbered]
    if tracked and ids.next is not None:
        mark = msgspec.json.encode({"rowIdHighWaterMark": ids.next - 1}).decode()
        actions.append({"domainMetadata": {"domain": ROW_TRACKING_DOMAIN, "configuration": mark, "removed": False}})
    return b"".join(msgspec.json.encode(action) + b"\n" for action in actions)

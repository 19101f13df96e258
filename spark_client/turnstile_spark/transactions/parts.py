"""The commits of a transaction, one for each table that it writes, as they are proposed: their
content, and their files.

A table's held commits are folded (:mod:`turnstile_spark.transactions.conflicts.fold`) into one
commit. After a conflict some commits move to later versions
(:mod:`turnstile_spark.transactions.recovery.reconcile`), and the members that all of them share
follow.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from turnstile_http.http import now_ms
from turnstile_spark.delta.checksums import Checksums
from turnstile_spark.delta.log_files import LogFiles, Write
from turnstile_spark.transactions.conflicts.fold import commit_info, fold, with_participants, with_timestamp
from turnstile_spark.transactions.scopes.scope import ScopedTable


@dataclass(frozen=True, slots=True)
class Part:
    """The folded commit of one table, and its file to be. Version 0, of a table that is created,
    has its file in the log: it has no readers before the table has a name, so it may be written
    again until then.
    """

    version: int
    txn_id: str
    write: Write
    is_written: bool

    @property
    def is_first(self) -> bool:
        return self.version == 0

    def at_version(self, version: int, content: str) -> Part:
        """The same part with another content and version, in a file of its own; version 0 stays
        where it is."""
        if self.is_first:
            return replace(self, write=replace(self.write, content=content), is_written=False)
        path = f"{self.write.path.rpartition('/')[0]}/{version:020d}.{uuid.uuid4()}.json"
        return replace(self, version=version, write=replace(self.write, path=path, content=content), is_written=False)

    def body(self, table_id: str, *, inline: bool) -> dict[str, Any]:
        content = (
            {"inline": {"content": self.write.content, "name": self.write.name}}
            if inline
            else {"staged": {"name": self.write.name, "size": len(self.write.content.encode()), "modified": now_ms()}}
        )
        return {"table_id": table_id, "version": self.version, **content}


class Parts:
    """The parts of one transaction.

    ``tables``: held commits, by table id; ``application``: a name and a number that every table
    records; ``group_id``: the transaction's id, if every commit is to name all tables (the action
    ``transactionGroup``). Commits of more than ``inline_limit`` bytes are proposed as files.
    """

    def __init__(
        self,
        files: LogFiles,
        tables: Mapping[str, ScopedTable],
        *,
        inline_limit: int,
        application: tuple[str, int] | None = None,
        group_id: str | None = None,
    ) -> None:
        self._files = files
        self._inline_limit = inline_limit
        self._group_id = group_id
        self._parts = {table_id: _part_of(table, application) for table_id, table in tables.items()}
        self._set_timestamp()
        #: The commits for the versions after the cut, by table id.
        self.folded = {table_id: part.write.content for table_id, part in self._parts.items()}
        self._name_participants()

    @property
    def txn_id(self) -> str:
        """The transaction id of the first commit; empty when there is none."""
        return next((part.txn_id for part in self._parts.values()), "")

    @property
    def names(self) -> dict[str, str]:
        """The names of the files of the commits that are proposed, by table id."""
        return {table_id: part.write.name for table_id, part in self._parts.items() if not part.is_first}

    @property
    def versions(self) -> dict[str, int]:
        """The versions that the tables are to become, by id."""
        return {table_id: part.version for table_id, part in self._parts.items()}

    @property
    def has_first(self) -> bool:
        """Whether a table is created."""
        return any(part.is_first for part in self._parts.values())

    def bodies(self, inline: int) -> list[dict[str, Any]]:
        """The members of the request: commits up to ``inline`` bytes travel in it, others as files.
        Version 0 is none: the server reads it where it is."""
        return [
            part.body(table_id, inline=len(part.write.content.encode()) <= inline)
            for table_id, part in self._parts.items()
            if not part.is_first
        ]

    def move(self, later: Mapping[str, tuple[int, str]]) -> dict[str, Future[None]]:
        """Gives these tables' commits other versions and contents. Writes changed files as
        :meth:`write_later`."""
        for table_id, (version, content) in later.items():
            self._parts[table_id] = self._parts[table_id].at_version(version, content)
        return self.write_later({*later, *self._set_timestamp(), *self._name_participants()})

    def write(self) -> None:
        """Writes the files of all commits that are proposed, and returns when they are there."""
        for part in self._parts.values():
            if not part.is_first:
                self._files.write(part.write)

    def write_later(self, only: Iterable[str] | None = None) -> dict[str, Future[None]]:
        """Writes the files that are not there yet (``only``: of these tables): commits that are
        proposed as files, and versions 0, at once, the others beside the request. Not while a
        request that names them may be in progress.
        """
        files = self._files
        pending = {}
        for table_id, part in self._parts.items():
            if part.is_written or (only is not None and table_id not in only):
                continue
            if part.is_first:
                files.rewrite(part.write)
            elif len(part.write.content.encode()) > self._inline_limit:
                files.write(part.write)
            else:
                pending[table_id] = files.write_later(part.write)
        return pending

    def write_checksums(self, checksums: Checksums, tables: Mapping[str, ScopedTable]) -> None:
        """Writes, in the background, the checksums of the versions that are committed; ``tables``:
        held commits, by id. Not of commits that were put on top of others': Delta derived none for
        those.
        """
        for table_id, part in self._parts.items():
            table = tables[table_id]
            if table.delta_log is not None and part.version == table.version and not part.is_first:
                checksums.write_of_transaction(table.delta_log, table.latest, part.write)

    def _set_timestamp(self) -> set[str]:
        """Gives all commits the latest of their in-commit timestamps, so that the tables as of any
        time have all of the transaction or nothing. Returns the ids of the tables with a changed
        commit.
        """
        timestamps = {
            table_id: commit_info(part.write.content)["inCommitTimestamp"] for table_id, part in self._parts.items()
        }
        latest = max(timestamps.values(), default=0)
        earlier = {table_id for table_id, timestamp in timestamps.items() if timestamp < latest}
        for table_id in earlier:
            part = self._parts[table_id]
            self._parts[table_id] = part.at_version(part.version, with_timestamp(part.write.content, latest))
        return earlier

    def _name_participants(self) -> set[str]:
        """With a group action: puts it into every commit, with the present versions. Returns the
        tables with a changed commit."""
        if not self._group_id:
            return set()
        versions = {table_id: part.version for table_id, part in self._parts.items()}
        changed = set()
        for table_id, part in self._parts.items():
            content = with_participants(part.write.content, self._group_id, versions)
            if content != part.write.content:
                self._parts[table_id] = part.at_version(part.version, content)
                changed.add(table_id)
        return changed


def _part_of(table: ScopedTable, application: tuple[str, int] | None) -> Part:
    """One commit of a table's held commits."""
    version = table.version
    contents = table.contents
    content = fold(contents, version, str(uuid.uuid4()))
    if application is not None:
        app_id, number = application
        note = {"txn": {"appId": app_id, "version": number, "lastUpdated": now_ms()}}
        content += json.dumps(note, separators=(",", ":")) + "\n"
    is_same = content == contents[0]
    if table.first is not None:
        return Part(version, str(commit_info(content)["txnId"]), replace(table.first, content=content), is_same)
    name = table.held[0].commit.name if is_same else f"{version:020d}.{uuid.uuid4()}.json"
    files = table.files
    assert files is not None, "a commit was held"
    path = f"{files.path.rpartition('/')[0]}/{name}"
    write = replace(files, path=path, content=content)
    return Part(version, str(commit_info(content)["txnId"]), write, is_same)

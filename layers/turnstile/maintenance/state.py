"""The state of a Delta table at a published version, as a stream: memory is bounded by the commits
after the newest checkpoint.

    state = open_state(world.storages.open(head.location), head.floor)
    for file in state.files():                    # turnstile.delta.core.actions.Add
        file.path, file.size, file.partitionValues, file.stats, file.deletionVector

1. The newest checkpoint that can be read and after which no commit is missing: classic, of several
parts, or of the V2 spec with its sidecars. None is needed if the log goes back to version 0.
2. Of the commits after it first all but file actions, in a pass of their own: they are few.
3. Then file actions, the newest commit first: of each logical file the newest action counts. The
keys of the files seen are in memory, 16 bytes each, and no actions; a checkpoint's rows are passed
on unless their key was seen.

The rules of a sound log are in ``turnstile.delta.core.soundness`` (I24). A commit that is empty,
cut or has no commitInfo is an error that names its file, and so is a checkpoint with pages or a
number of files other than written. Such damage may show in the middle of the pass: ``derive`` then
begins again with an older start.

Log compaction files are not read: the commits have the same actions, and they are there as long as
a compaction file may be.

Parquet needs pyarrow, which not every function carries (docs/dependencies.md): it is imported when
the first Parquet file is opened. Sources: Delta protocol, "Action Reconciliation", "Checkpoints";
delta-kernel-rs, ``action_reconciliation``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.actions import Add
from turnstile.delta.core.segments import Checkpoint, complete_checkpoints, file_key, starts, vector_id
from turnstile.delta.core.soundness import (
    begins_with_info,
    checkpoint_fault,
    count_fault,
    damage_at,
    demanded_from,
    first_gap,
    late,
    missing,
    missing_log,
    size_fault,
)
from turnstile.delta.log.files import LogFiles, list_log, sizes_of
from turnstile.delta.log.in_force import InForce, typed_action
from turnstile.delta.log.lines import NO_INFO, DamagedLog, actions_of_lines, broken, commit_lines, where_of
from turnstile.delta.log.parquet import UNDECODABLE, has_parquet, table_actions
from turnstile.delta.soundness.checkpoints import SIDECARS, expected_adds, sidecar_fault, sidecar_name, tagged_adds
from turnstile.maintenance.file_actions import (
    ROWS,
    Columns,
    Rows,
    Tally,
    actions_of_commit,
    actions_of_file,
    adds_of,
    columns_of,
)
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage

T = TypeVar("T")

_OTHER: Final = ("protocol", "metaData", "domainMetadata", "txn")


class TableState(msgspec.Struct, frozen=True):
    """The state at ``version``.

    Attributes:
        protocol, metadata: the actions' members.
        domains: the ``domainMetadata`` action of each domain, without removed ones.
        transactions: the newest ``txn`` action of each application.
        start: version of the checkpoint that it is read from; -1 for none.
    """

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, dict[str, Any]]
    transactions: dict[str, dict[str, Any]]
    start: int
    _storage: LogStorage
    _checkpoint: tuple[str, ...]
    _sidecars: tuple[str, ...]
    _files: LogFiles
    _tagged: tuple[int, ...] = ()

    @property
    def identity(self) -> str:
        """The source of the state: as long as it is the same, ``files`` come in the same order."""
        return hashlib.sha256("/".join((str(self.start), *self._checkpoint, *self._sidecars)).encode()).hexdigest()[:16]

    def files(self) -> Iterator[Add]:
        """Yields the ``add`` action of each file of the table, in no order; ``stats`` is JSON, also
        where a checkpoint has it only as a struct. Raises UnsupportedTable for a log that cannot be
        read or changed meanwhile: then the yielded files are no state.
        """
        for chunk in self.chunks():
            yield from chunk.adds if isinstance(chunk, Rows) else adds_of(chunk.adds)

    def chunks(self) -> Iterator[Rows | Columns]:
        """Yields the file actions of the state, ``add`` and ``remove``, some at a time. Every
        tombstone is among them, also expired ones. Raises as ``files``."""
        count = 0
        tally = Tally()
        for chunk in self._all_chunks(tally):
            count += len(chunk.adds) if chunk.adds is not None else 0
            yield chunk
        self._check_counts(tally.adds, count)

    def _all_chunks(self, tally: Tally) -> Iterator[Rows | Columns]:
        seen: dict[bytes, int] = {}
        for version in range(self.version, self.start, -1):
            yield from self._of_commit(version, seen)
        for name in self._checkpoint:
            yield from self._of_checkpoint(f"{LOG}{name}", seen, tally)
        for name in self._sidecars:
            yield from self._of_checkpoint(f"{SIDECARS}{name}", seen, tally)

    def _check_counts(self, in_checkpoint: int, in_all: int) -> None:
        """Raises DamagedLog if the checkpoint, or the whole state, has another number of files than
        its other sources."""
        if self._checkpoint:
            path = f"{LOG}{self._checkpoint[0]}"
            expected = expected_adds(self._storage, self.start, self._files)
            expected |= {f"{path} itself": count for count in self._tagged}
            fault = count_fault(self.start, path, in_checkpoint, expected)
            if fault is not None:
                raise DamagedLog(fault)
        if self.version > self.start and self.version in self._files.checksums:
            path = published_path(self.version)
            for source, count in expected_adds(self._storage, self.version, self._files).items():
                if count != in_all:
                    span = f"with {path} the log has {in_all} files, and {source} says {count}"
                    raise DamagedLog(damage_at(self.version, f"or a commit before it is damaged: {span}"))

    def _of_commit(self, version: int, seen: dict[bytes, int]) -> Iterator[Rows]:
        """The actions of a commit that no later one overrides. ``seen`` gets their keys, each with
        the version."""
        where = where_of(version)
        rows = Rows([], [])
        for add, remove in actions_of_commit(self._storage, version):
            action = add or remove
            if action is None:
                continue
            key = file_key(action.path, vector_id(action.deletionVector))
            if key in seen:
                if seen[key] == version:
                    raise broken(f"{where} has two actions of {action.path[:200]!r} with the same deletion vector")
                continue
            seen[key] = version
            if add is not None:
                rows.adds.append(add)
            else:
                rows.removes.append(remove)  # type: ignore[arg-type]  # one of the two is there
            if len(rows.adds) + len(rows.removes) == ROWS:
                yield rows
                rows = Rows([], [])
        yield rows

    def _of_checkpoint(self, path: str, seen: dict[bytes, int], tally: Tally) -> Iterator[Rows | Columns]:
        """The actions of a checkpoint's file that no commit overrides. Raises DamagedLog for one
        that cannot be decoded."""
        try:
            yield from (
                self._rows_of(path, seen, tally)
                if path.endswith(".json")
                else columns_of(self._storage, path, seen, tally)
            )
        except DamagedLog:
            raise
        except UnsupportedTable as error:
            raise DamagedLog(checkpoint_fault(self.start, path, f"cannot be read: {error.message}")) from error
        except UNDECODABLE as error:
            why = str(error).partition("\n")[0][:300]
            raise DamagedLog(checkpoint_fault(self.start, path, f"cannot be read: {why}")) from error

    def _rows_of(self, path: str, seen: dict[bytes, int], tally: Tally) -> Iterator[Rows]:
        rows = Rows([], [])
        for add, remove in actions_of_file(self._storage, path, path):
            action = add or remove
            tally.adds += add is not None
            if action is None or file_key(action.path, vector_id(action.deletionVector)) in seen:
                continue
            if add is not None:
                rows.adds.append(add)
            else:
                rows.removes.append(remove)  # type: ignore[arg-type]  # one of the two is there
            if len(rows.adds) + len(rows.removes) == ROWS:
                yield rows
                rows = Rows([], [])
        yield rows


# -- opening ----------------------------------------------------------------------------------------------------------


class _Start(msgspec.Struct, frozen=True):
    """The parts of a checkpoint beside file actions."""

    checkpoint: Checkpoint
    rows: list[tuple[str, dict[str, Any]]]
    sidecars: tuple[str, ...]


def derive(
    storage: LogStorage,
    version: int,
    use: Callable[[TableState], T],
    files: LogFiles | None = None,
    *,
    ratified: Mapping[int, int] | None = None,
    opened: TableState | None = None,
) -> T:
    """Returns the result of ``use`` for the state at ``version``. If the checkpoint of the state
    turns out to be damaged, ``use`` is called again with the state from an older start. Raises as
    ``open_state`` and as ``use``: the first damage, if no start is sound. ``opened``: the state, if
    the caller has it.
    """
    files = files or list_log(storage)
    without = set[int]()
    first: DamagedLog | None = None
    while True:
        try:
            state = opened or open_state(storage, version, files, without=without, ratified=ratified)
            opened = None
            return use(state)
        except DamagedLog as error:
            if error.fault.kind != "checkpoint" or error.fault.version in without:
                raise first or error from None
            first = first or error
            without.add(error.fault.version)
        except UnsupportedTable as error:
            raise first or error from None


def open_state(
    storage: LogStorage,
    version: int,
    files: LogFiles | None = None,
    *,
    without: Collection[int] = (),
    ratified: Mapping[int, int] | None = None,
) -> TableState:
    """Returns the state of the table below ``storage`` at ``version``, which must be published.

    Args:
        files: the listing of the log (``turnstile.delta.log.files``), if the caller has one.
        without: versions of checkpoints that are not to be used.
        ratified: bytes that versions were ratified with, as far as they are known
            (``turnstile.delta.soundness.judge.ratified_sizes``).

    Raises:
        DamagedLog: a file of the log is missing or damaged.
        UnsupportedTable: the log cannot be read for another reason, or here: it needs pyarrow.
    """
    files = (files or list_log(storage)).upto(version)
    if not files.commits:
        raise DamagedLog(missing_log(version))
    if version not in files.commits:
        raise DamagedLog(missing(version))
    tried = {at: stats for at, stats in files.checkpoints.items() if at not in without}
    for at in starts(tried, files.commits, version):
        start = None if at < 0 else _open_checkpoint(storage, at, files)
        if start is not None or at < 0:
            for commit in range(at + 1, version + 1):
                fault = size_fault(commit, files.commits[commit].size, (ratified or {}).get(commit))
                if fault is not None:
                    raise DamagedLog(fault)
            return _reconcile(storage, version, at, start, files)
    raise _no_start(files, version)


def _no_start(files: LogFiles, version: int) -> UnsupportedTable:
    """Why no state of ``version`` can be read."""
    listing = sizes_of(files)
    gap = first_gap(listing, version)
    first = min(files.commits)
    newest = max(files.checkpoints, default=-1)
    if gap is not None:
        return DamagedLog(missing(gap) if gap > first else late(first))
    if not has_parquet():
        return broken("its checkpoints are Parquet, which cannot be read here")
    path = min((stat.path for stat in files.checkpoints.get(newest, ())), default=LOG)
    why = "cannot be read, and no older one can after which every commit is there"
    return DamagedLog(checkpoint_fault(newest, path, why))


def _open_checkpoint(storage: LogStorage, version: int, files: LogFiles) -> _Start | None:
    """The first complete checkpoint of ``version`` with files that are all there and can be
    opened."""
    sizes = {stat.path.removeprefix(LOG): stat.size for stat in files.checkpoints[version]}
    for checkpoint in complete_checkpoints(sizes):
        rows: list[tuple[str, dict[str, Any]]] = []
        try:
            for name in checkpoint.names:
                actions = table_actions(storage, f"{LOG}{name}", (*_OTHER, "sidecar", "checkpointMetadata"))
                if actions is None:
                    break
                rows += actions
            else:
                sidecars = {sidecar_name(body): body.get("sizeInBytes") for action, body in rows if action == "sidecar"}
                described = {"protocol", "metaData"} <= {action for action, _ in rows}
                faults = (sidecar_fault(storage, version, f"{SIDECARS}{name}", size) for name, size in sidecars.items())
                if described and not any(faults):
                    for name, body in rows:
                        if name in _OTHER:
                            typed_action(name, body, f"the checkpoint of version {version}")
                    return _Start(checkpoint, rows, tuple(sidecars))
        except (UnsupportedTable, *UNDECODABLE):
            continue
    return None


def is_complete(storage: LogStorage, version: int, files: LogFiles) -> bool:
    """Whether a checkpoint of ``version`` is there, with all its parts and sidecars, and can be
    read here: a state can start with it. ``files``: the listing of the log."""
    return version in files.checkpoints and _open_checkpoint(storage, version, files) is not None


def named_sidecars(storage: LogStorage, path: str) -> set[str]:
    """Returns the names of the sidecars that a checkpoint's file names; none if it is gone or
    empty. Raises UnsupportedTable if it cannot be read here."""
    stat = storage.stat(path)
    if stat is None or stat.size == 0:
        return set()
    try:
        rows = table_actions(storage, path, ("sidecar",))
    except UNDECODABLE as error:
        raise broken(f"{path} cannot be read: {error}") from error
    if rows is None and storage.stat(path) is not None:
        raise broken(f"{path} cannot be read here")
    return {sidecar_name(body) for _, body in rows or ()}


def _reconcile(storage: LogStorage, version: int, at: int, start: _Start | None, files: LogFiles) -> TableState:
    """The state from ``start`` at version ``at``, with the actions of the later commits beside file
    actions."""
    force = InForce()
    without_info = list[int]()
    for name, body in start.rows if start is not None else ():
        if name in _OTHER:
            force.apply(name, body, f"the checkpoint of version {at}")
    for commit in range(at + 1, version + 1):
        path = published_path(commit)
        file = storage.read(path, PIECE_BYTES)
        if file is None:
            raise DamagedLog(missing(commit))
        content = commit_lines(pieces_of(storage, path, *file), commit)
        first = next(content)
        if not begins_with_info(first):
            without_info.append(commit)
        for name, body in actions_of_lines(chain((first,), content), where_of(commit)):
            if name in _OTHER:
                force.apply(name, body, f"version {commit} ({path})")
    force.check()
    if not {"protocol", "metaData"} <= force.actions.keys():
        raise broken("it has no protocol or no metadata")
    described = (force.actions["protocol"], force.actions["metaData"])
    demanded = demanded_from(described[0], described[1].get("configuration") or {})
    bare = next((commit for commit in without_info if demanded is not None and commit >= demanded), None)
    if bare is not None:
        raise DamagedLog(damage_at(bare, NO_INFO))
    live = {str(body["domain"]): body for body in force.of_kind("domainMetadata") if not body.get("removed")}
    transactions = {str(body["appId"]): body for body in force.of_kind("txn")}
    names, sidecars = (start.checkpoint.names, start.sidecars) if start is not None else ((), ())
    tagged = tuple(tagged_adds(start.rows)) if start is not None else ()
    return TableState(version, *described, live, transactions, at, storage, names, sidecars, files, tagged)

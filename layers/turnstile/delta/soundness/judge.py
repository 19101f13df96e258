"""The one judge of a table's ``_delta_log`` (I24): collects the facts for
``turnstile.delta.core.soundness``.

    judge(storage, floor)            the sources of the newest state: the listing, the newest start,
                                     the commits after it
    read_facts, fault_of             one commit, whole
    checkpoints.judge_checkpoint     one checkpoint, whole: all files, all columns, all pages
    folder_fault(storage)            whether there is a log at all

Costs. ``judge``: one listing; a pass over the commits after the newest checkpoint, ``COMMIT_BYTES``
at most; and a pass over that checkpoint, ``CHECKPOINT_BYTES`` at most. It lists the files that it
did not check: files beyond these limits, and Parquet where pyarrow cannot be imported. One piece of
a file, or one batch of a checkpoint, is in memory. ``folder_fault``: the first entry of a listing.
No commit of a table calls the judge: it is for operations that derive something from a log (plans,
details, checkpoints, indexes, clean-up) and for operations that report on one (verify, repair,
imports, recovery).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.core.segments import complete_checkpoints, starts
from turnstile.delta.core.soundness import (
    Fault,
    begins_with_info,
    damage_at,
    demanded_from,
    listing_faults,
    missing,
    missing_log,
)
from turnstile.delta.log.files import LogFiles, list_log, sizes_of
from turnstile.delta.log.in_force import InForce
from turnstile.delta.log.lines import NO_INFO, DamagedLog, commit_lines, where_of
from turnstile.delta.log.parquet import UNDECODABLE, table_actions
from turnstile.delta.soundness.checkpoints import Judgement, NotJudged, judge_checkpoint, line_fault, pointed_in
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, World

COMMIT_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of the commits after a start that are read to be judged."""
READABLE_FROM: Final = "readable_from"
"""Member of a location's row: the version from which on a clean-up leaves the log
(``catalog.core.location_rows.Location``)."""


def folder_fault(storage: LogStorage, upto: int = 0) -> Fault | None:
    """The fault of a table whose folder, or log, is gone: no published commit is there; None for
    none. Reads a listing as far as its first commit. Raises StorageFault."""
    there = any(
        stat.path.endswith(".json") and stat.path[len(LOG) : len(LOG) + 20].isdigit() for stat in storage.list(LOG)
    )
    return None if there else missing_log(upto)


def ratified_sizes(head: TableHead) -> dict[int, int]:
    """The bytes that published versions were ratified with, as far as the HEAD knows; of a ticket
    it does not know them."""
    return {
        place.version: place.entry.size
        for place in tail_by_version(head)
        if place.version <= head.floor and not place.entry.ticket and place.entry.size
    }


def expired_upto(world: World, head: TableHead) -> int:
    """The version before which commits may be gone from the log of ``head``: a clean-up was
    announced, or the table was imported, and its log was let expire before. Two reads at most."""
    space = world.space
    first = head.first
    if head.source:
        row = world.refs.read(space.table(head.source))
        first = TableHead.from_row(row).first if row is not None else head.latest
    owner = world.refs.read(space.location(head.location))
    return max(first, int(owner.get(READABLE_FROM) or 0) if owner is not None else head.latest)


def judge(
    storage: LogStorage,
    floor: int,
    ratified: Mapping[int, int] | None = None,
    *,
    expired_upto: Callable[[], int] | None = None,
) -> Judgement:
    """Judges the sources of the state of version ``floor``, which is published, and the whole
    listing. ``ratified`` as ``ratified_sizes``; ``expired_upto`` is that function, called only for
    a log that does not begin at version 0. Raises StorageFault.
    """
    files = list_log(storage).upto(floor)
    pointed = pointed_in(storage)
    expired = None
    if expired_upto is not None and min(files.commits, default=0) > 0:
        expired = expired_upto()
    faults = listing_faults(sizes_of(files), floor, ratified or {}, expired_upto=expired, pointed=pointed)
    found = Judgement(tuple(faults))
    if floor not in files.commits:
        return found
    begun, start = _start(storage, files, floor)
    found += begun
    if start is None:
        return found
    left = COMMIT_BYTES
    seen = list[CommitFacts]()
    described = _describe(storage, files, start)
    force = InForce()
    for version in range(start + 1, floor + 1):
        left -= files.commits[version].size
        if left < 0:
            why = f"the commits after version {start} have more than {COMMIT_BYTES} bytes"
            found += Judgement((), (NotJudged(published_path(version), why),))
            break
        facts = read_facts(storage, version, force)
        seen.append(facts)
        described |= facts.described
    configuration = described.get("metaData", {}).get("configuration") or {}
    demanded = demanded_from(described.get("protocol", {}), configuration if isinstance(configuration, dict) else {})
    known = {fault.path for fault in found.faults}
    versions = {where_of(facts.version): facts.version for facts in seen}
    faults = [damage_at(versions[where], f"is not readable: {problem}") for where, problem in force.problems()]
    faults += [
        fault for facts in seen if (fault := fault_of(facts, info=demanded is not None and facts.version >= demanded))
    ]
    return found + Judgement(tuple(fault for fault in faults if fault.path not in known))


def _start(storage: LogStorage, files: LogFiles, floor: int) -> tuple[Judgement, int | None]:
    """The newest start that is sound, or was not checked, with the findings about it and newer
    ones; None for none. -1: version 0."""
    found = Judgement()
    for at in starts(files.checkpoints, files.commits, floor):
        if at < 0:
            return found, at
        judgement = judge_checkpoint(storage, at, files)
        known = {fault.path for fault in found.faults}
        found += Judgement(tuple(each for each in judgement.faults if each.path not in known), judgement.not_judged)
        if not judgement.faults:
            return found, at
    return found, None


def _describe(storage: LogStorage, files: LogFiles, start: int) -> dict[str, dict[str, Any]]:
    """Protocol and metadata as the checkpoint of version ``start`` has them; none where it cannot
    be read."""
    for checkpoint in complete_checkpoints(sizes_of(files).checkpoints.get(start, {})):
        try:
            actions = [
                table_actions(storage, f"{LOG}{name}", ("protocol", "metaData")) or () for name in checkpoint.names
            ]
        except (UnsupportedTable, *UNDECODABLE):
            continue
        return {name: body for some in actions for name, body in some}
    return {}


# -- one commit --------------------------------------------------------------------------------------------------------


class CommitFacts(msgspec.Struct, frozen=True):
    """The facts of a commit's file: its ``fault`` if it has one, whether its first line is a
    commitInfo with an in-commit timestamp, and the protocol and metadata that it sets."""

    version: int
    fault: Fault | None = None
    has_info: bool = False
    described: dict[str, dict[str, Any]] = {}


def fault_of(facts: CommitFacts, *, info: bool) -> Fault | None:
    """Returns the fault that a commit's facts show; None for none. ``info``: the commit must begin
    with a commitInfo that has an in-commit timestamp."""
    if facts.fault is None and info and not facts.has_info:
        return damage_at(facts.version, NO_INFO)
    return facts.fault


def read_facts(storage: LogStorage, version: int, force: InForce | None = None) -> CommitFacts:
    """Reads a commit whole. With ``force`` actions about the table as a whole are applied to it,
    and their members are not judged: a later commit may supersede them. Raises StorageFault."""
    path = published_path(version)
    has_info = None
    described = dict[str, dict[str, Any]]()
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        return CommitFacts(version, missing(version))
    try:
        for line in commit_lines(pieces_of(storage, path, *file), version):
            has_info = begins_with_info(line) if has_info is None else has_info
            if problem := line_fault(line, force, where_of(version)):
                return CommitFacts(version, damage_at(version, f"is not readable: {problem}"))
            if b'"metaData"' in line or b'"protocol"' in line:
                members = msgspec.json.decode(line, type=dict[str, Any])
                described |= {
                    name: members[name] for name in ("protocol", "metaData") if isinstance(members.get(name), dict)
                }
    except DamagedLog as error:
        return CommitFacts(version, error.fault)
    except UnsupportedTable as error:
        return CommitFacts(version, damage_at(version, f"is not readable: {error.message}"))
    return CommitFacts(version, None, bool(has_info), described)

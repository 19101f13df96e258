"""The scenario of appends to one Iceberg table that share a metadata file and a swap: servers that
lead groups, die and lose answers, and writers that bypass them (I2, I9, I21)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.append_groups import AppendServer, AppendWriter, prepare_table
from tests.simulation.actors.catalog import prepare
from tests.simulation.auditors.append_groups import AppendAuditor
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.change_groups import ChangeGroups
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg.append_merger import AppendMerger
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.files.manifest_lists import of_block
from turnstile.iceberg.core.shared_appends import Answer, Written
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.shared_appends import AppendGroup, WaitingAppend


class AppendGroups(ChangeGroups):
    """Appends that share a swap."""

    name = "append-groups"
    beside = "writer"
    fault_share = 0.5
    rates = (0.0, 0.01, 0.03, 0.08)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one table."""
        prepare(state)
        owners = OwnerAuditor(state)
        appends = AppendAuditor(state)
        process = Process(state, "prepare", prone=False)
        process.free = True
        prepare_table(world_of(process))
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            kind = AppendServer if name.startswith("server") else AppendWriter
            yield Actor(name, kind(state, name, rng, owners, appends), leads=True)


def _answers(wrong: Callable[[Callable[..., Answer]], Callable[..., Answer]]) -> Callable[[], Any]:
    return lambda: swapped("turnstile.iceberg.shared_appends.answer", wrong)


def _acknowledged_without_a_place(right: Callable[..., Answer]) -> Callable[..., Answer]:
    """An append that left the group is answered with the group's table."""
    return lambda written, *, member: Answer.TABLE if written is Written.APPLIED else right(written, member=member)


def _again_when_unknown(right: Callable[..., Answer]) -> Callable[..., Answer]:
    """The outcome of a swap that is unknown is called a failure to the members."""
    return lambda written, *, member: right(Written.APPLIED if written is Written.UNKNOWN else written, member=member)


def _all_from_one_base() -> Any:
    """Each member is computed from the table as the group found it."""
    apply = WaitingAppend.apply
    bases = dict[str, Any]()

    def wrong(self: WaitingAppend, base: Any, now_ms: int, previous_file: str) -> Any:
        if previous_file:
            bases["first"] = base
        return apply(self, bases["first"], now_ms, previous_file)

    return patch.object(WaitingAppend, "apply", wrong)


def _old_base_again() -> Any:
    """A group that lost is sent again as it was computed, whatever the table is now."""
    compute = AppendGroup._compute

    def wrong(self: AppendGroup, before: IcebergTable, appends: Sequence[Any], now_ms: int) -> None:
        if self._result is None:
            compute(self, before, appends, now_ms)

    return patch.object(AppendGroup, "_compute", wrong)


def _forgets_when_unknown() -> Any:
    """Files of a group whose outcome is unknown are deleted."""
    commit = AppendGroup._commit

    def wrong(self: AppendGroup) -> Any:
        written, error = commit(self)
        if written is Written.UNKNOWN:
            self._context.forget(self._files)
        return written, error

    return patch.object(AppendGroup, "_commit", wrong)


def _forgets_lists() -> Any:
    """Manifest lists of the applied attempt are deleted with those of others."""

    def wrong(self: AppendGroup) -> None:
        assert self._result is not None
        assert self._result.entity is not None
        named = self._result.entity.metadata
        self._context.forget([file for file in self._files if file != named])

    return patch.object(AppendGroup, "_forget_others", wrong)


def _lists_are_not_written() -> Any:
    """Only the metadata file of a group is written."""
    write = MetadataFiles.write_after
    return patch.object(MetadataFiles, "write_after", lambda self, _others, *more: write(self, (), *more))


def _numbers_of_the_sender() -> Any:
    """A merged append keeps the sequence number that its writer computed in its manifest list."""
    new_list = AppendMerger._new_list

    def wrong(self: AppendMerger, base: Any, snapshot: Any, current: Any, *more: Any) -> Any:
        sequence, listed = more
        entries = listed.entries()
        for entry in entries:
            if entry[manifests.ADDED_SNAPSHOT] == snapshot.snapshot_id:
                entry[manifests.SEQUENCE] = entry[manifests.MIN_SEQUENCE] = snapshot.sequence_number
        return new_list(self, base, snapshot, current, sequence, of_block(avro.encode(entries, manifests.SCHEMA)))

    return patch.object(AppendMerger, "_new_list", wrong)


APPEND_GROUP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "appends: acknowledged without a place": (_answers(_acknowledged_without_a_place), "I21"),
    "appends: unknown is acknowledged": (_answers(_again_when_unknown), "I21"),
    "appends: all from one base": (_all_from_one_base, "I21"),
    "appends: an old base again": (_old_base_again, "I2"),
    "appends: files of an unknown outcome are deleted": (_forgets_when_unknown, "I9"),
    "appends: lists of the applied attempt are deleted": (_forgets_lists, "I9"),
    "appends: lists are not written": (_lists_are_not_written, "I9"),
    "appends: numbers of the sender": (_numbers_of_the_sender, "I2"),
    "appends: swapped without 'same head'": (
        without("turnstile.catalog.changes.attempts.swap_head", "same head"),
        "I9",
    ),
}
"""The planted mistake, and the invariant that it breaks."""

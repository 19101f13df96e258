"""Every scenario by its name, its planted mistakes, and the seeds that find them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation.engine.run import TABLES
from tests.simulation.mistakes.catalog_history import PAST_MISTAKES
from tests.simulation.mistakes.frozen_sandboxes import FROZEN_MISTAKES
from tests.simulation.mistakes.owners import OWNER_MISTAKES
from tests.simulation.mistakes.tables import MISTAKES
from tests.simulation.scenarios.append_groups import APPEND_GROUP_MISTAKES, AppendGroups
from tests.simulation.scenarios.bounded_sweeps import BOUNDED_SWEEP_MISTAKES, BoundedSweeps
from tests.simulation.scenarios.catalog_history import CatalogHistory
from tests.simulation.scenarios.change_groups import CHANGE_GROUP_MISTAKES, ChangeGroups
from tests.simulation.scenarios.clocks_ahead import AHEAD_MISTAKES, ClocksAhead
from tests.simulation.scenarios.events import DELIVERY_MISTAKES, EVENT_MISTAKES, Followed, Sent
from tests.simulation.scenarios.file_index import FILE_INDEX_MISTAKES, FileIndex
from tests.simulation.scenarios.fleet import FLEET_MISTAKES, Fleet
from tests.simulation.scenarios.follow_ups import FOLLOW_UP_MISTAKES, FollowUpActions
from tests.simulation.scenarios.forwarding import FORWARDING_MISTAKES, Forwarded
from tests.simulation.scenarios.frozen_sandboxes import FrozenSandboxes
from tests.simulation.scenarios.groups import GROUP_MISTAKES, Groups
from tests.simulation.scenarios.judged_reads import JUDGED_MISTAKES, JudgedReads, LargeJudgedReads
from tests.simulation.scenarios.large_groups import LARGE_GROUP_MISTAKES, LargeGroups
from tests.simulation.scenarios.light_work import LIGHT_WORK_MISTAKES, LightWork
from tests.simulation.scenarios.log_cleanup import CLEANUP_MISTAKES, LogCleanup
from tests.simulation.scenarios.owners import Owners
from tests.simulation.scenarios.reservations import RESERVATION_MISTAKES, Reserved
from tests.simulation.scenarios.rows import Rows
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.tables import (
    LATE_COPY_MISTAKES,
    REUSED_FILE_MISTAKES,
    SHARED_MISTAKES,
    LateCopies,
    ReusedStagedFiles,
    Shared,
)
from tests.simulation.scenarios.undrops import UNDROP_MISTAKES, Undropped
from tests.simulation.scenarios.upgrades import UPGRADE_MISTAKES, Upgrades
from tests.simulation.scenarios.vacuums import VACUUM_MISTAKES, Vacuumed

SCENARIOS: Final[dict[str, Scenario]] = {
    one.name: one
    for one in (
        TABLES,
        Groups(),
        LargeGroups(),
        JudgedReads(),
        LargeJudgedReads(),
        LateCopies(),
        Shared(),
        ReusedStagedFiles(),
        BoundedSweeps(),
        CatalogHistory(),
        FrozenSandboxes(),
        ClocksAhead(),
        Undropped(),
        Owners(),
        Followed(),
        Sent(),
        FollowUpActions(),
        LightWork(),
        FileIndex(),
        Vacuumed(),
        LogCleanup(),
        Reserved(),
        Fleet(),
        AppendGroups(),
        ChangeGroups(),
        Forwarded(),
        Upgrades(),
        Rows(),
    )
}

PLANTED: Final[dict[str, Mapping[str, tuple[Callable[[], Any], str]]]] = {
    TABLES.name: MISTAKES,
    Groups.name: GROUP_MISTAKES,
    LargeGroups.name: LARGE_GROUP_MISTAKES,
    JudgedReads.name: JUDGED_MISTAKES,
    LateCopies.name: LATE_COPY_MISTAKES,
    Shared.name: SHARED_MISTAKES,
    ReusedStagedFiles.name: REUSED_FILE_MISTAKES,
    BoundedSweeps.name: BOUNDED_SWEEP_MISTAKES,
    CatalogHistory.name: PAST_MISTAKES,
    FrozenSandboxes.name: FROZEN_MISTAKES,
    ClocksAhead.name: AHEAD_MISTAKES,
    Undropped.name: UNDROP_MISTAKES,
    Owners.name: OWNER_MISTAKES,
    Followed.name: EVENT_MISTAKES,
    Sent.name: DELIVERY_MISTAKES,
    FollowUpActions.name: FOLLOW_UP_MISTAKES,
    LightWork.name: LIGHT_WORK_MISTAKES,
    FileIndex.name: FILE_INDEX_MISTAKES,
    Vacuumed.name: VACUUM_MISTAKES,
    LogCleanup.name: CLEANUP_MISTAKES,
    Reserved.name: RESERVATION_MISTAKES,
    Fleet.name: FLEET_MISTAKES,
    AppendGroups.name: APPEND_GROUP_MISTAKES,
    ChangeGroups.name: CHANGE_GROUP_MISTAKES,
    Forwarded.name: FORWARDING_MISTAKES,
    Upgrades.name: UPGRADE_MISTAKES,
}


LIKELY: Final = {
    "gc: the edge is now": 19,
    "gc: no margin at the edge": 116,
    "gc: no margin for what is on its way": 1_777,
    "gc: restoring commits are not marked": 98,
    "gc: snapshots are not marked": 22,
    "gc: recent HEADs are not marked": 3,
    "gc: a dropped catalog's objs by their age": 144,
    "gc: a catalog created again is not seen": 418,
    "gc: a HEAD whose files are there": 16,
    "gc: a HEAD before its objs": 3,
    "reset: does not say that it restores": 98,
    "reset: leaves the HEADs of tables": 2,
    "reset: restores what is purged": 277,
    "history: gone back to whatever is there": 471,
    "swap: without 'same head'": 1,
    "swap: landed and not noticed": 19,
    "tidy: what may yet land": 57,
    "tidy: what a later attempt named": 1,
    "clone: holds nothing": 1,
    "clone: dropped and still held": 4,
    "clone: purged under it": 14,
    "clone: comes back with a reset and holds nothing": 15,
    "listing: not pinned": 2,
    "merge: computed once": 7,
    "iceberg: swept when unknown": 61,
    "iceberg: one table after the other": 2,
    "turn: believed for ever": 1_680,
    "change: applied however old it is": 4,
    "gc: no fence": 257,
    "swap: without 'not swept'": 192,
    "swap: 'not swept' for resets only": 1_071,
    "mark ahead: never taken back": 15,
    "mark ahead: erased": 22,
    "mark ahead: a change read before goes on": 833,
    "mark ahead: gc goes on without it": 31,
    "undrop: looks at no files": 8,
    "undrop: a clone holds nothing": 5,
    "undrop: an Iceberg clone holds nothing": 5,
    "ref: revived without 'same token'": 23,
    "ref: what is forgotten is refused": 45,
}
"""The first seeds that found the planted mistakes. Only a head start: where the services or the
scenarios have changed, the search goes on from the first seed.
``python -m tests.simulation --scenario catalog-history --mistakes`` prints them."""

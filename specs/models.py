"""The TLA+ models that TLC checks, with their constants.

    Turnstile.tla      the HEAD of a table
    Groups.tla         transactions over tables
    LargeGroups.tla    transactions over more tables than one write changes
    CatalogGc.tla      the HEAD of a catalog, and gc
    Fleet.tla          members of a fleet, and their granules
    Asking.tla         changes of a catalog that are forwarded to its owner
    SharedWrites.tla   commits of a table that share a write
    Branches.tla       the promotion of a branch with many tables
    BranchUpdates.tla  a branch takes over what its catalog got

``configurations.py`` lists their configurations.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

INVARIANTS: Final = (
    "I1_Contiguous", "I2_OnceAndUnchanged", "I3_Replays", "I4_PublishedPrefix", "I5_Floor", "I6_Latest",
    "I10_NothingNeededIsGone",
)  # fmt: skip
STEPS: Final = ("I5_FloorNeverFalls", "I6_LatestNeverFalls")


GROUP_INVARIANTS: Final = ("I3_Told", "I8_Whole", "I8_ReadsHold", "I8_Cut", "I20_RowsHold")
LARGE_GROUP_INVARIANTS: Final = ("I1_InPlace", "I2_Once", "I8_Whole", "I8_ReadsHold", "I8_Cut")
CATALOG_INVARIANTS: Final = ("I6_NothingIsOverwritten", "I9_HeadIsComplete", "I10_HistoryIsWhole", "I10_NamedIsWhole")

FLEET_INVARIANTS: Final = (
    "I19_OneOwnerInAnEpoch", "I19_OwnersAreMembers", "I19_Counted", "I19_Fenced", "I19_WhoeverLivesKeeps",
    "I19_Noticed",
)  # fmt: skip


ASKING_INVARIANTS: Final = (
    "I3_OnceWithKey", "I21_OnceWithout", "I21_Acknowledged", "I21_Refused", "I21_RefusedByWhatWas",
    "I21_UnknownOnlyWhereBegun",
)  # fmt: skip

SHARED_INVARIANTS: Final = (
    "I1_Contiguous", "I1_AsNamed", "I2_MetadataAsRead", "I3_Once", "I3_NeverTurnsUp",
    "I23_Ratified", "I23_Refused", "I23_RowsSinceItCame", "I23_UnknownWhereSent", "I23_AsAlone",
)  # fmt: skip


BRANCH_INVARIANTS: Final = ("I28_Whole", "I28_NothingLost", "I28_NothingUndone", "I28_InPlace")
UPDATE_INVARIANTS: Final = ("I28_OneInstant", "I28_BaseOfTables", "I28_NothingLost")


@dataclass(frozen=True)
class Configuration(ABC):
    """A model with its constants.

    Attributes:
        mistakes: the guards that are removed.
        breaks: the invariants of which TLC must find one violated; empty when none may be.
        live: whether liveness is checked.
    """

    module: ClassVar[str]

    name: str
    mistakes: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    live: bool = False

    @abstractmethod
    def config(self) -> str:
        """Returns the configuration file of TLC."""

    @property
    def removed(self) -> str:
        """The removed guards as a set of TLA+."""
        return "{" + ", ".join(f'"{mistake}"' for mistake in self.mistakes) + "}"


@dataclass(frozen=True)
class Model(Configuration):
    """One configuration of ``Turnstile.tla``."""

    module: ClassVar[str] = "Turnstile.tla"

    writers: str = "{a, b, c}"
    tickets: str = "{c}"
    publishers: str = "{p}"
    keep: int = 0
    crashes: int = 0

    def config(self) -> str:
        constants = (
            f"CONSTANTS Writers = {self.writers} Tickets = {self.tickets} Publishers = {self.publishers} "
            f"Keep = {self.keep} Crashes = {self.crashes} Mistakes = {self.removed}"
        )
        values = re.findall(r"\w+", self.writers + self.publishers)
        constants += "".join(f" {value} = {value}" for value in values)
        if self.live:
            return f"SPECIFICATION Live\n{constants}\nPROPERTY I11_Published\n"
        return (
            f"SPECIFICATION Spec\n{constants}\nSYMMETRY Alike\nINVARIANTS {' '.join(INVARIANTS)}\n"
            f"PROPERTIES {' '.join(STEPS)}\n"
        )


@dataclass(frozen=True)
class CatalogModel(Configuration):
    """One configuration of ``CatalogGc.tla``."""

    module: ClassVar[str] = "CatalogGc.tla"

    objs: str = "{a, b, c}"
    writers: str = "{v, w}"
    days: int = 4
    commits: int = 3
    kept: int = 1
    ahead: int = 0  # days by which the clock of a run of gc may be ahead

    def config(self) -> str:
        """Returns the configuration file. A gc run whose clock is ahead removes history that should be kept, so
        there the history is not checked."""
        values = " ".join(f"{value} = {value}" for value in re.findall(r"\w+", self.objs + self.writers))
        ahead = f"{{0, {self.ahead}}}" if self.ahead else "{0}"
        invariants = [each for each in CATALOG_INVARIANTS if not self.ahead or each != "I10_HistoryIsWhole"]
        return (
            f"SPECIFICATION Spec\nCONSTANTS Objs = {self.objs} Writers = {self.writers} Days = {self.days} Kept = "
            f"{self.kept} "
            f"Commits = {self.commits} Ahead = {ahead} Mistakes = {self.removed} {values}\nSYMMETRY Alike\n"
            f"INVARIANTS {' '.join(invariants)}\n"
        )


@dataclass(frozen=True)
class FleetModel(Configuration):
    """One configuration of ``Fleet.tla``."""

    module: ClassVar[str] = "Fleet.tla"

    members: str = "{a, b}"
    granules: str = "{g}"
    beats: int = 2
    moves: int = 1
    doubts: int = 1
    crashes: int = 1

    def config(self) -> str:
        """The configuration file. Where liveness is checked no server leaves: one has to stay."""
        values = " ".join(f"{value} = {value}" for value in re.findall(r"\w+", self.members + self.granules))
        constants = (
            f"CONSTANTS Members = {self.members} Granules = {self.granules} Beats = {self.beats} Moves = {self.moves} "
            f"Doubts = {self.doubts} Crashes = {self.crashes} Leaves = {str(not self.live).upper()} Mistakes = "
            f"{self.removed} {values}"
        )
        if self.live:
            return f"SPECIFICATION Live\n{constants}\nPROPERTY I19_OwnedAgain\n"
        return f"SPECIFICATION Spec\n{constants}\nSYMMETRY Alike\nINVARIANTS {' '.join(FLEET_INVARIANTS)}\n"


@dataclass(frozen=True)
class GroupModel(Configuration):
    """One configuration of ``Groups.tla``."""

    module: ClassVar[str] = "Groups.tla"

    singles: int = 1
    judged: bool = False

    def config(self) -> str:
        judged = str(self.judged).upper()
        constants = f"CONSTANTS Singles = {self.singles} Judged = {judged} Mistakes = {self.removed}"
        return f"SPECIFICATION Spec\n{constants}\nINVARIANTS {' '.join(GROUP_INVARIANTS)}\n"


@dataclass(frozen=True)
class AskingModel(Configuration):
    """One configuration of ``Asking.tla``."""

    module: ClassVar[str] = "Asking.tla"

    changes: str = "{k}"
    keyed: str = "{k}"
    tries: int = 2
    others: int = 2
    connections: int = 1
    crashes: int = 1

    def config(self) -> str:
        values = " ".join(f"{value} = {value}" for value in re.findall(r"\w+", self.changes))
        return (
            f"SPECIFICATION Spec\nCONSTANTS Changes = {self.changes} Keyed = {self.keyed} Tries = {self.tries} Others "
            f"= {self.others} "
            f"Breaks = {self.connections} Crashes = {self.crashes} Mistakes = {self.removed} {values}\n"
            f"INVARIANTS {' '.join(ASKING_INVARIANTS)}\n"
        )


@dataclass(frozen=True)
class LargeGroupModel(Configuration):
    """One configuration of ``LargeGroups.tla``."""

    module: ClassVar[str] = "LargeGroups.tla"

    singles: int = 1
    begins: int = 2
    cuts: bool = False

    def config(self) -> str:
        constants = (
            f"CONSTANTS Singles = {self.singles} Begins = {self.begins} Cuts = {str(self.cuts).upper()} "
            f"Mistakes = {self.removed}"
        )
        return f"SPECIFICATION Spec\n{constants}\nINVARIANTS {' '.join(LARGE_GROUP_INVARIANTS)}\n"


@dataclass(frozen=True)
class SharedModel(Configuration):
    """One configuration of ``SharedWrites.tla``. Where a guard is removed only the
    invariants of ``breaks`` are checked: several may be violated, and TLC would name the one that
    is violated first."""

    module: ClassVar[str] = "SharedWrites.tla"

    named: str = "{a}"
    changers: str = "{}"
    tickets: str = "{s, t}"
    waiting: str = "{a, s, t}"
    single: str = "{}"
    processes: str = "{p}"
    again: str = "{}"
    losses: int = 0
    evictions: int = 0
    closings: int = 0

    def config(self) -> str:
        values = " ".join(
            f"{value} = {value}" for value in re.findall(r"\w+", self.named + self.tickets + self.processes)
        )
        invariants = [name for name in SHARED_INVARIANTS if not self.breaks or name.split("_")[0] in self.breaks]
        return (
            f"SPECIFICATION Spec\nCONSTANTS Named = {self.named} Changers = {self.changers} Tickets = {self.tickets} "
            f"Waiting = {self.waiting} Single = {self.single} Processes = {self.processes} Again = {self.again} "
            f"Losses = {self.losses} Evictions = {self.evictions} Closings = {self.closings} Mistakes = {self.removed} "
            f"{values}\n"
            f"SYMMETRY Alike\nINVARIANTS {' '.join(invariants)}\n"
        )


@dataclass(frozen=True)
class BranchModel(Configuration):
    """One configuration of ``Branches.tla``."""

    module: ClassVar[str] = "Branches.tla"
    invariants: ClassVar[tuple[str, ...]] = BRANCH_INVARIANTS

    commits: int = 1

    def config(self) -> str:
        constants = f"CONSTANTS Commits = {self.commits} Mistakes = {self.removed}"
        return f"SPECIFICATION Spec\n{constants}\nINVARIANTS {' '.join(self.invariants)}\n"


@dataclass(frozen=True)
class BranchUpdateModel(BranchModel):
    """One configuration of ``BranchUpdates.tla``."""

    module: ClassVar[str] = "BranchUpdates.tla"
    invariants: ClassVar[tuple[str, ...]] = UPDATE_INVARIANTS

    commits: int = 2

"""The configurations that TLC checks: each model as it is, and once without each guard.

A configuration with ``breaks`` lacks a guard, and TLC must find the named invariant violated.
"""

from __future__ import annotations

from typing import Final

from models import (
    AskingModel,
    BranchModel,
    BranchUpdateModel,
    CatalogModel,
    FleetModel,
    GroupModel,
    LargeGroupModel,
    Model,
    SharedModel,
)

SOUND: Final = (
    Model("as it is"),
    Model("as it is, one entry kept", writers="{a, b}", tickets="{b}", keep=1, crashes=1, publishers="{p, q}"),
    Model("as it is: everything is published", writers="{a, b}", tickets="{b}", crashes=1, live=True),
)
GROUP_SOUND: Final = (
    GroupModel("groups as they are"),
    GroupModel("groups whose reads are judged", judged=True),
)
GROUP_BROKEN: Final = (
    GroupModel("groups: one part after the other", ("one part after the other",), ("I8",)),
    GroupModel("groups: reads are not checked", ("reads are not checked",), ("I8", "I20")),
    GroupModel(
        "groups: judged by the last commit only",
        ("judges the last commit only",),
        ("I3", "I20"),
        singles=2,
        judged=True,
    ),
    GroupModel("groups: whatever moved is final", ("whatever moved is final",), ("I3",), judged=True),
    GroupModel("groups: a part that was ratified alone counts", ("a part counts",), ("I3",)),
    GroupModel("groups: every refusal is final", ("every refusal is final",), ("I3",)),
    GroupModel("groups: evicted before the index remembers", ("forgets",), ("I3",)),
    GroupModel("groups: a cut taken row by row", ("cut row by row",), ("I8",)),
)
LARGE_GROUP_SOUND: Final = (
    LargeGroupModel("large groups as they are", begins=1),
    LargeGroupModel("large groups as they are, and a cut", begins=1, cuts=True),
)
LARGE_GROUP_BROKEN: Final = (
    LargeGroupModel("large groups: committed after one prepare", ("one prepare is enough",), ("I8",)),
    LargeGroupModel("large groups: committed after it was aborted", ("commits what was aborted",), ("I8",)),
    LargeGroupModel(
        "large groups: a coordinator commits another's beginning", ("any beginning is committed",), ("I8",)
    ),
    LargeGroupModel("large groups: entries of any beginning count", ("entries of any beginning count",), ("I8",)),
    LargeGroupModel("large groups: an open group counts as aborted", ("open counts as aborted",), ("I8",)),
    LargeGroupModel("large groups: prepared over an entry", ("prepares over an entry",), ("I1", "I8")),
    LargeGroupModel("large groups: others commit over an entry", ("commits over an entry",), ("I1", "I8")),
    LargeGroupModel("large groups: gc takes a group with entries", ("gc takes a group with entries",), ("I8",)),
    LargeGroupModel("large groups: reads are not held", ("reads are not held",), ("I8",)),
    LargeGroupModel(
        "large groups: a cut counts what was decided after it",
        ("a cut is not taken again",),
        ("I8",),
        begins=1,
        cuts=True,
    ),
)
BRANCH_SOUND: Final = (BranchModel("branches as they are"), BranchUpdateModel("updates of branches as they are"))
BRANCH_BROKEN: Final = tuple(
    BranchModel(f"branches: {mistake}", (mistake,), ("I28",))
    for mistake in (
        "held at any version",
        "the branch's tables are not held",
        "one prepare is enough",
        "decided apart from the catalog",
        "the catalog's HEAD is not compared",
        "open counts as aborted",
        "a fold only releases",
        "commits over a hold",
    )
) + tuple(
    BranchUpdateModel(f"updates: {mistake}", (mistake,), ("I28",))
    for mistake in (
        "a log begins at an earlier base",
        "the branch's HEAD is not compared",
        "the catalog's tables are not checked",
        "a commit of an update has no version",
        "a table keeps its base",
    )
)
CATALOG_SOUND: Final = (
    CatalogModel("catalog as it is"),
    CatalogModel("catalog as it is, one writer and a longer past", writers="{w}", commits=4),
    CatalogModel("catalog as it is, a clock of gc is ahead", ahead=3, writers="{w}"),
    CatalogModel("catalog as it is, a clock of gc is ahead, longer history", days=3, kept=2, ahead=5, writers="{w}"),
)
CATALOG_BROKEN: Final = (
    CatalogModel("catalog: swapped whatever the HEAD is", ("no same head",), ("I6",)),
    CatalogModel("catalog: deletes objs of a swap that may come late", ("tidies too early",), ("I9",)),
    CatalogModel("catalog: gc marks the HEAD alone", ("edge is the HEAD",), ("I10",)),
    CatalogModel("catalog: no margin for writes on their way", ("no margin for what is on its way",), ("I9", "I10")),
    CatalogModel("catalog: gc takes what is young", ("young goes",), ("I9", "I10")),
    CatalogModel(
        "catalog: restoring commits are not marked", ("no restores",), ("I9", "I10"), writers="{w}", commits=4
    ),
    CatalogModel("catalog: snapshots are not marked", ("names unmarked",), ("I10",)),
    CatalogModel("catalog: what lost its name comes back", ("name may be gone",), ("I9", "I10")),
    CatalogModel("catalog: what gc took while a reset stood still comes back", ("no fence",), ("I9", "I10")),
    CatalogModel("catalog: gc takes what came back while it stood still", ("marks before a reset",), ("I9", "I10")),
    CatalogModel(
        "catalog: a change that read the row before a mark was taken back goes on",
        ("marks taken back are not counted",),
        ("I9",),
        ahead=3,
        writers="{w}",
    ),
    CatalogModel(
        "catalog: gc goes on after its mark was taken back",
        ("mark is not looked for",),
        ("I9",),
        ahead=3,
        writers="{w}",
    ),
    CatalogModel(
        "catalog: a mark that is ahead is erased",
        ("mark is erased",),
        ("I9", "I10"),
        days=3,
        kept=2,
        ahead=5,
        writers="{w}",
    ),
    CatalogModel(
        "catalog: gc takes what landed while its clock was ahead",
        ("marks before a late change",),
        ("I9",),
        ahead=3,
        writers="{w}",
    ),
)
FLEET_SOUND: Final = (
    FleetModel("fleet as it is, handed over", beats=1, crashes=0),
    FleetModel("fleet as it is, with a crash", beats=1, moves=0),
    FleetModel("fleet as it is, two granules", granules="{g, h}", beats=0, moves=1, doubts=0, crashes=0),
    FleetModel("fleet as it is, three members", members="{a, b, c}", beats=0, moves=1, doubts=0, crashes=0),
    FleetModel("fleet: every granule is owned again", beats=0, moves=0, doubts=0, live=True),
)
FLEET_BROKEN: Final = (
    FleetModel("fleet: granules change hands in any epoch", ("any epoch",), ("I19",)),
    FleetModel("fleet: the epoch stays the same", ("keeps the epoch",), ("I19",)),
    FleetModel("fleet: an owner is not fenced", ("no fence",), ("I19",)),
    FleetModel("fleet: granules are given to who leaves or has left", ("gives to whoever leaves",), ("I19",)),
    FleetModel("fleet: taken from a member that shows life", ("takes from who shows life",), ("I19",)),
    FleetModel("fleet: a member is removed that shows life", ("removes who shows life",), ("I19",)),
    FleetModel("fleet: a member is removed that owns something", ("removes an owner",), ("I19",)),
    FleetModel("fleet: changes are not counted", ("changes are not counted",), ("I19",)),
    FleetModel("fleet: what changed hands is not read again", ("reads nothing again",), ("I19",)),
    FleetModel(
        "fleet: nobody looks for silent members", ("nobody looks",), ("I19",), beats=0, moves=0, doubts=0, live=True
    ),
)
ASKING_SOUND: Final = (
    AskingModel("asking as it is, with a key", tries=3, connections=2),
    AskingModel("asking as it is, without a key", changes="{u}", keyed="{}", others=4, connections=2, crashes=2),
    AskingModel("asking as it is, two changes", changes="{k, u}", tries=2, others=1),
)
ASKING_BROKEN: Final = (
    AskingModel("asking: begin before it was taken", ("begins untaken",), ("I21",), changes="{u}", keyed="{}"),
    AskingModel("asking: begun once it was answered", ("begun when answered",), ("I21",), changes="{u}", keyed="{}"),
    AskingModel(
        "asking: applied here what was begun", ("applies what was begun",), ("I21",), changes="{u}", keyed="{}"
    ),
    AskingModel("asking: unknown before it was begun", ("unknown before begin",), ("I21",)),
    AskingModel("asking: refused for a moment after it was begun", ("tells what passes",), ("I21",)),
    AskingModel("asking: an owner begins unasked", ("begins unasked",), ("I21",), changes="{u}", keyed="{}"),
    AskingModel(
        "asking: an owner begins when the asker has gone", ("begins when closed",), ("I21",), changes="{u}", keyed="{}"
    ),
    AskingModel("asking: an owner does not look at the key", ("the owner has no key",), ("I3",)),
    AskingModel("asking: a key remembers no refusal", ("refusals are forgotten",), ("I21",)),
)
SHARED_SOUND: Final = (
    SharedModel("shared writes as they are", tickets="{s, t, u}", single="{u}"),
    SharedModel("shared writes, metadata changes", named="{a, b}", changers="{a}", single="{b}"),
    SharedModel("shared writes, two processes", changers="{a}", processes="{p, q}", evictions=1),
    SharedModel("shared writes, answers are lost, the table is full", losses=1, closings=1),
    SharedModel(
        "shared writes, a commit sent again alone",
        named="{}",
        tickets="{s, t, u}",
        waiting="{s, t, u}",
        single="{t}",
        again="{t}",
        losses=1,
    ),
)
SHARED_BROKEN: Final = (
    SharedModel(
        "shared writes: fits any later row", ("fits any later row",), ("I1",),
        tickets="{s, t, u}", waiting="{s, t, u}", single="{a}",
    ),
    SharedModel(
        "shared writes: not what their own writes do", ("fits any later row",), ("I23",),
        tickets="{s, t, u}", waiting="{s, t, u}", single="{a}",
    ),
    SharedModel(
        "shared writes: follows any row, as tickets do", ("follows any row",), ("I1",),
        tickets="{s, t, u}", single="{u}",
    ),
    SharedModel(
        "shared writes: identities are not compared", ("follows any row", "no identity"), ("I3",),
        named="{}", tickets="{s, t, u}", waiting="{s, t, u}", losses=1,
    ),
    SharedModel(
        "shared writes: identities were evicted", ("follows any row", "not remembered"), ("I3",),
        named="{}", tickets="{s, t, u}", waiting="{s, t, u}", losses=1, evictions=3,
    ),
    SharedModel(
        "shared writes: the epoch is not compared", ("follows any row", "no epoch"), ("I2",),
        changers="{a}", tickets="{s, t, u}", waiting="{s, t, u}", single="{a}",
    ),
    SharedModel(
        "shared writes: old tickets behind new metadata", ("judged before the change",), ("I2",), changers="{a}"
    ),
    SharedModel(
        "shared writes: judged by the row before it came", ("judged by the row before it came",), ("I23",), single="{s}"
    ),
    SharedModel("shared writes: who came later is judged, too", ("judges who came later",), ("I23",), single="{s}"),
    SharedModel("shared writes: told in order of the line", ("told in order of the line",), ("I23",)),
    SharedModel(
        "shared writes: a conflict of one is everybody's", ("one refuses all",), ("I23",),
        tickets="{s, t, u}", single="{u}",
    ),
    SharedModel("shared writes: no answer is a refusal", ("silence is a refusal",), ("I3",), losses=1),
    SharedModel("shared writes: unknown to who had no write", ("silence for everybody",), ("I23",), losses=1),
    SharedModel("shared writes: a lost answer is forgotten", ("lost is forgotten",), ("I3",), losses=1, closings=1),
)  # fmt: skip
FULL: Final = (
    SharedModel(
        "shared writes, metadata changes, answers are lost", named="{a, b}", changers="{a}", single="{b}", losses=1
    ),
    SharedModel("shared writes, lost, full and evicted", losses=1, evictions=2, closings=1),
    SharedModel("shared writes, two processes and one alone", single="{s}", processes="{p, q}", losses=1, evictions=1),
    SharedModel("shared writes, sent again when evicted", single="{t}", again="{t}", losses=1, evictions=1),
    Model("as it is, two publishers that die", publishers="{p, q}", crashes=1),
    FleetModel("fleet as it is, of everything some"),
    FleetModel("fleet as it is, two granules and doubts", granules="{g, h}", beats=1, crashes=0),
    LargeGroupModel("large groups as they are, begun anew", singles=0),
    LargeGroupModel("large groups as they are, begun anew among commits"),
)
BROKEN: Final = (
    Model("ratified because the row has no such version", ("row absent",), ("I1", "I2", "I3")),
    Model("ratified although the identity is in the tail", ("no identity",), ("I3",)),
    Model("ratified although identities were evicted", ("not remembered",), ("I3",)),
    Model("evicted before the index remembers", ("forgets",), ("I3",)),
    Model("a refused write taken for a won one", ("refused looks won",), ("I3",)),
    Model("the floor written without looking", ("floor unguarded",), ("I2", "I5"), publishers="{p, q}"),
    Model("the floor raised before copying", ("floor first",), ("I5",)),
    Model("gc takes staged files above the floor", ("gc above floor",), ("I10", "I3")),
    Model(
        "pending cleared over a ratification, and no sweeper",
        ("no sweeper", "clears pending"), ("I11",), writers="{a, b}", tickets="{b}", live=True,
    ),
)  # fmt: skip
USUAL: Final = (
    *SOUND,
    *BROKEN,
    *GROUP_SOUND,
    *GROUP_BROKEN,
    *LARGE_GROUP_SOUND,
    *LARGE_GROUP_BROKEN,
    *CATALOG_SOUND,
    *CATALOG_BROKEN,
    *FLEET_SOUND,
    *FLEET_BROKEN,
    *ASKING_SOUND,
    *ASKING_BROKEN,
    *SHARED_SOUND,
    *SHARED_BROKEN,
    *BRANCH_SOUND,
    *BRANCH_BROKEN,
)

"""The claim of an import that has not finished, in the row of its location's owner (``location_rows``).

    importing    the run that took the import up last

A claim comes before its table: the row names a uuid that has no HEAD yet. Owners without a HEAD are also tables that are
only registered, and those of other formats; the mark tells a claim from them, and goes in the transaction that creates the
HEAD. Whoever goes on with another run's import puts itself there first. So a run that finds the table unfit gives its
claim back only while nobody else may be about to write the upgrade commit under that uuid (I10): a log that names a uuid
which owns nothing could neither be imported nor written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from turnstile.catalog.core.location_rows import release
from turnstile.delta.core.head import TableHead
from turnstile.store.core.keys import Space
from turnstile.store.core.writes import Absent, Change, Check, Clause, Drop, Equals, Row, Set, Write

_MARK: Final = ("importing",)


def take_up(space: Space, location: str, table_id: str, known: str, run: str) -> Change:
    """``run`` goes on with the import that makes ``table_id``.

    Args:
        known: the run that was read there; empty where there is no mark, as claims had none in the past.
    """
    unmoved = Equals(_MARK, known) if known else Absent(_MARK)
    return Change(
        space.location(location),
        (
            Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id)),
            Clause("same run", "I10", "nobody finished it, or took it up, since it was read", unmoved),
        ),
        (Set(_MARK, run),),
    )


def take_over(space: Space, location: str, dropped: TableHead, table_id: str, run: str) -> tuple[Change, Check]:
    """The location of a dropped table goes to the import that brings it back as ``table_id``; markers stay as they are."""
    theirs = Clause("still theirs", "I10", "nobody else took it over", Equals(("table_id",), dropped.table_id))
    still_dropped = (
        Clause("dropped", "I10", "the earlier table takes no commits", Equals(("state",), "dropped")),
        Clause("published", "I4", "its last version is in _delta_log", Equals(("floor",), dropped.latest)),
        Clause("not purged", "I10", "nobody asked for its files to be purged", Absent(("reason",))),
    )
    change = Change(space.location(location), (theirs,), (Set(("table_id",), table_id), Set(_MARK, run)))
    return change, Check(dropped.key, still_dropped)


def finish(space: Space, location: str, table_id: str) -> Change:
    """What goes with creating the HEAD: the claim is the table's."""
    own = Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id))
    return Change(space.location(location), (own,), (Drop(_MARK),))


def give_back(space: Space, location: str, table_id: str, run: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that free the location again, if only ``run`` ever was about to use it and there is no table.

    Args:
        rows: under ``keys_above``; when they have changed by the time of the write, a clause fails.
    """
    own, *markers = release(space, location, table_id, rows)
    alone = Clause("same run", "I10", "nobody else took the import up", Equals(_MARK, run))
    unmade = Clause("unmade", "I10", "there is no such table", Absent(("key",)))
    return [replace(own, clauses=(*own.clauses, alone)), *markers, Check(space.table(table_id), (unmade,))]

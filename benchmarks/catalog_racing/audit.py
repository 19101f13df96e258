"""A catalog's log, walked every way there is, held against what its writers were told (I9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.catalog_racing.places import CATALOG
from benchmarks.catalog_racing.writers import Told
from turnstile.catalog.history.log import Logged
from turnstile.catalog.services import CatalogServices

_PAGE = 17  # commits; less than any log here has, so that every walk turns pages


def walked(services: CatalogServices, *, oldest_first: bool) -> list[Logged]:
    """The log, page by page."""
    found: list[Logged] = []
    start = None
    while True:
        page = services.history.log(CATALOG, start=start, oldest_first=oldest_first, max_results=_PAGE)
        found += page.commits
        start = page.next_seq
        if start is None:
            return found


def by_parents(services: CatalogServices) -> list[str]:
    """HEADs from the newest to the first, each named by the one after it."""
    tree = services.reader.current(CATALOG)
    found, commit = [tree.head], tree.commit
    while commit.parents:
        found.append(commit.parents[0])
        before = services.reader.store.find_commit(CATALOG, commit.parents[0])
        if before is None:
            raise AssertionError(f"commit {found[-1]} is named and missing")
        commit = before
    return found


def violations(services: CatalogServices, told: Sequence[Told]) -> list[str]:
    """What is wrong, as sentences; nothing, if the log is what the writers were told.

    Args:
        services: of a sandbox that has seen nothing yet.
        told: by every writer there was since the catalog was made.
    """
    up = walked(services, oldest_first=True)
    wrong = []
    if up != walked(services, oldest_first=False)[::-1]:
        wrong.append("the log reads differently from its newest commit on than from its oldest")
    if [one.head for one in up] != by_parents(services)[::-1]:
        wrong.append("the log is not the chain of parents")
    if [one.seq for one in up] != list(range(len(up))):
        wrong.append(f"the numbers of {len(up)} commits are not 0 to {len(up) - 1}")
    for one in told:
        wrong += _of_writer(one, [commit.message for commit in up])
    return wrong


def _of_writer(told: Told, messages: Sequence[str]) -> list[str]:
    landed = [int(message.split()[1]) for message in messages if message.startswith(f"{told.name} ")]
    times, wrong = Counter(landed), []
    if landed != sorted(landed):
        wrong.append(f"the commits of {told.name} are out of order: {landed}")
    wrong += [f"commit {number} of {told.name} is there {times[number]} times" for number in times if times[number] > 1]
    wrong += [
        f"commit {number} of {told.name} was acknowledged and is lost"
        for number in told.acknowledged
        if not times[number]
    ]
    unheard = set(landed) - set(told.acknowledged) - told.unknown
    return wrong + [f"commit {number} of {told.name} is there and nobody was told" for number in sorted(unheard)]

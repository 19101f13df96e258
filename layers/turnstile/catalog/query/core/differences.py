"""The difference between two answers to one path query: the decision whether a read of the catalog
is still valid. Pure.

A read is valid while its query leads to the same entities: tables, views and namespaces by their
ids, under the same names. So of the changes that others made since, only changes count that add an
entity to the query's answer or remove one (TreeCat, "precision locking"). Other members of an
entity than its name and id (a comment, rights, the rows of a table) are no part of that, unless the
query asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from turnstile.catalog.core.entities import Entity, id_of, is_same, kind_of
from turnstile.catalog.core.paths import dotted_name, path_of

Change = Literal["appeared", "gone", "renamed", "replaced"]


class Difference(msgspec.Struct, frozen=True):
    """One thing that a query leads to now and did not, or the reverse.

    Attributes:
        change: ``appeared``, ``gone``; ``renamed``: it has the name ``to`` now; ``replaced``: its
            name is another one's now.
        name: without the catalog; its id where the name is not known.
    """

    change: Change
    name: str
    to: str | None = None


def differences(before: Mapping[str, Entity], now: Mapping[str, Entity]) -> tuple[Difference, ...]:
    """Returns how the answer ``now`` differs from the one ``before``, both by index key; nothing if
    the read holds."""
    places = {id_of(entity): key for key, entity in now.items() if id_of(entity)}
    result: list[Difference] = []
    renamed: set[str] = set()
    for key, entity in sorted(before.items()):
        present = now.get(key)
        if present is not None and kind_of(present) == kind_of(entity) and is_same(present, entity):
            continue
        to = places.get(id_of(entity), key)
        is_renamed = to != key and is_same(now[to], entity)
        if is_renamed:
            renamed.add(to)
            result.append(Difference("renamed", _name(key), _name(to)))
        if present is not None:
            result.append(Difference("replaced", _name(key)))
        elif not is_renamed:
            result.append(Difference("gone", _name(key)))
    new = (key for key in sorted(now) if key not in before and key not in renamed)
    return (*result, *(Difference("appeared", _name(key)) for key in new))


def differences_of_ids(ids: Collection[str], now: Mapping[str, Entity]) -> tuple[Difference, ...]:
    """As ``differences``, of an answer of which only the ids are known."""
    present = {id_of(entity): key for key, entity in now.items()}
    gone = tuple(Difference("gone", id) for id in sorted(ids) if id not in present)
    return (*gone, *(Difference("appeared", _name(key)) for id, key in sorted(present.items()) if id not in ids))


def _name(key: str) -> str:
    return dotted_name(*path_of(key))

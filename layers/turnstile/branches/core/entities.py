"""Entities of a branch and of its catalog, with and without their rights. Pure."""

from __future__ import annotations

import msgspec

from turnstile.catalog.core.entities import Catalog, Entity, is_same
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.rights.grants import NO_ACCESS, Access


def access_of(entity: Entity | None) -> Access:
    """Returns the rights on an entity; no rights for none, and for one that has none of its own."""
    return NO_ACCESS if entity is None or isinstance(entity, Catalog | NamedSnapshot) else entity.access


def with_access(entity: Entity, access: Access) -> Entity:
    """Returns the entity with other rights; as it is if its kind has none of its own."""
    if isinstance(entity, Catalog | NamedSnapshot):
        return entity
    return msgspec.structs.replace(entity, access=access)


def same_but_rights(one: Entity, other: Entity) -> bool:
    """Returns whether two entities differ in their rights at most."""
    return with_access(one, NO_ACCESS) == with_access(other, NO_ACCESS)


def updated_entity(before: Entity | None, after: Entity, present: Entity | None) -> Entity | None:
    """Returns the entity of a name that a branch changed, for the branch's tree after an update.
    The branch's rights stay where it changed them, and likewise the rest of the entity; otherwise
    the catalog's are taken. None where the branch changed rights alone, and the catalog has another
    entity, or none, under the name.

    Args:
        before, after: in the base and on the branch; present: in the catalog.
    """
    if before is None or not _is_same(before, after):
        return after
    has_own_content = not same_but_rights(before, after)
    if present is None or not _is_same(before, present):
        return after if has_own_content else None
    return with_access(after if has_own_content else present, updated_access(before, after, present))


def updated_access(before: Entity | None, after: Entity, present: Entity | None) -> Access:
    """Returns the rights on an entity of a branch after an update, with the arguments of
    ``updated_entity``: the branch's where it changed them, otherwise the catalog's."""
    return access_of(after if access_of(after) != access_of(before) else present)


def _is_same(one: Entity, other: Entity) -> bool:
    return type(one) is type(other) and is_same(one, other)

"""The registry of objects' types: what is stored is registered, and everything that is registered
ends somehow."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.support.catalog import create, fresh
from turnstile.catalog.core.entities import Entity
from turnstile.coordination.core.rows import check_name
from turnstile.gc.core import KINDS
from turnstile.gc.kinds import SCANNERS
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.rows import (
    CHECKS,
    COMMIT,
    ENTITIES,
    EVENT_LOG,
    EVENTS,
    IDENTITY,
    INLINE,
    TASK,
    TRANSACTION,
    TYPES,
    Caching,
    of_id,
    prefixes,
    register_type,
)


def test_every_entity_has_a_type_of_its_name() -> None:
    assert {one.name for one in ENTITIES} == {entity.__struct_config__.tag for entity in get_args(Entity)}


def test_i10_every_type_of_objs_is_collected_by_a_kind_of_gc_or_ends_by_itself() -> None:
    for one in TYPES.values():
        ends = one in (CHECKS, EVENTS, EVENT_LOG, IDENTITY, TRANSACTION) or one.mutable
        assert (one.collected is None) == ends, one.name
        assert one.collected is None or (one.collected in KINDS and one.collected in SCANNERS)


def test_i10_gc_takes_commits_before_what_they_lead_to() -> None:
    assert prefixes("history") == ("commit/", "entity/", "segment/")


def test_no_two_types_that_differ_in_rules_share_a_prefix() -> None:
    """An id alone says how an obj is cached and collected."""
    for one in TYPES.values():
        for other in TYPES.values():
            if other.prefix.startswith(one.prefix):
                assert other.prefix == one.prefix
                assert (one.caching, one.absence_ms, one.collected) == (
                    other.caching,
                    other.absence_ms,
                    other.collected,
                )


def test_i3_i6_absence_lasts_only_for_ids_that_are_random_and_given_out_after_the_write() -> None:
    lasting = {one.prefix for one in TYPES.values() if one.absence_ms}
    assert lasting == {"commit/", "entity/", "segment/"}
    assert all(one.absence_ms <= 60_000 for one in TYPES.values())


def test_what_changes_is_never_cached() -> None:
    assert all(one.caching is Caching.NEVER for one in TYPES.values() if one.mutable)


def test_ids_tell_their_type() -> None:
    assert of_id(COMMIT.id("1")) is COMMIT
    assert of_id("inline/t/1.2") is INLINE
    for unknown in ("", "a", "/", "task/gc", "future/1", "commit"):
        assert of_id(unknown) is None


def test_i9_everything_that_a_catalog_stores_is_registered() -> None:
    services = fresh()
    create(services, "t")
    services.named_snapshots.create("main", "then")
    services.renamer.rename("main", ("default",), "t", "u")
    stored = services.world.objs.rows.values()  # type: ignore[attr-defined]
    assert {register_type(obj.type, obj.id).prefix for obj in stored} == {"commit/", "entity/", "metadata/"}


@pytest.mark.parametrize("type", [name for name, one in TYPES.items() if not one.mutable])
def test_a_type_is_immutable_or_updateable_and_never_both(type: str) -> None:
    with pytest.raises(InvalidRequest, match="immutable"):
        check_name(type, "x")
    check_name(TASK.name, "x")
    with pytest.raises(ValueError, match="registered"):
        register_type(TASK.name, "task/x")

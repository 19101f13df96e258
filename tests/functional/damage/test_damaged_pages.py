"""No damage of a page of a SQLite store is believed: ``tests.support.damage.pages`` makes every
one; here is a sample."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.support.catalog import create, fakes, fresh
from tests.support.damage.pages import NEVER, run, small_store, table_of
from turnstile.catalog.core.tree import decode_commit, encode_commit
from turnstile.delta.metadata import MetadataStore
from turnstile.store.core.errors import UnreadableObj


def test_i2_a_sample_of_damaged_pages_is_reported_or_has_no_effect(tmp_path: Path) -> None:
    small_store(tmp_path / "home")
    shown = list[str]()
    counts = run(tmp_path / "home", each=3, show=shown.append)
    found = sum(counts.values(), Counter[str]())
    assert found["told"] > 10, table_of(counts)
    assert not any(found[outcome] for outcome in NEVER), "\n".join([table_of(counts), *shown])


@pytest.mark.parametrize("type", ["metadata", "commit", "table"])
def test_a_damaged_obj_is_named_and_not_taken_for_one_that_is_not_there(type: str) -> None:
    services = fresh()
    world = fakes(services)
    id = create(services, "t")
    for key, obj in list(world.objs.rows.items()):
        if obj.type == type:
            world.objs.rows[key] = msgspec.structs.replace(obj, payload=b"\xc1" + obj.payload[1:])
    head = world.refs.rows[world.space.table(id)]
    with pytest.raises(UnreadableObj, match=r"obj '.*' of .* cannot be read") as found:
        again = fresh(world)
        again.reader.store.entities("main", [obj.id for obj in world.objs.rows.values() if obj.type == "table"])
        again.listings.tables("main", ("default",))
        MetadataStore(world.objs, world.space).get("main", head["metadata"])
    assert found.value.details["obj"]
    assert found.value.remedy


def test_a_commit_whose_index_is_damaged_is_named() -> None:
    services = fresh()
    world = fakes(services)
    create(services, "t")
    head = world.refs.rows[services.reader.key("main")]["head"]
    key = next(key for key, obj in world.objs.rows.items() if obj.id == head)
    commit = decode_commit(world.objs.rows[key].payload)
    index = commit.embedded.replace(b"default", b"\xff" * 7)
    assert index != commit.embedded
    broken = msgspec.structs.replace(commit, embedded=index)
    world.objs.rows[key] = msgspec.structs.replace(world.objs.rows[key], payload=encode_commit(broken))
    with pytest.raises(UnreadableObj, match="utf-8"):
        fresh(world).listings.tables("main", ("default",))

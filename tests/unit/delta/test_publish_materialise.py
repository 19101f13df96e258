"""Inline commits get the files readers are promised: fixed name, fixed bytes, any order (design
2.3)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import fake_world
from turnstile.delta.commits import ContentMissing, FileSizes, materialise
from turnstile.delta.core.head import tail_by_version
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.names import staged_path


@pytest.mark.parametrize("workers", [1, 8])
def test_i4_every_inline_commit_gets_a_file_with_the_bytes_that_will_be_published(workers: int) -> None:
    table = Table(fake_world())
    table.mixed(12)
    sizes = materialise(table.world, table.head, tail_by_version(table.head), workers=workers)
    for version, name in table.names.items():
        found = table.storage.read(staged_path(name))
        assert found is not None
        assert found[0] == table.ratified[version]
        assert sizes[version] == len(table.ratified[version])
    Publisher(table.world).publish(TABLE)
    table.check_all_published()


def test_i2_materialising_is_idempotent_and_a_file_seen_once_needs_no_second_look() -> None:
    table = Table(fake_world())
    table.mixed(8)
    known = FileSizes(10)
    first = materialise(table.world, table.head, tail_by_version(table.head), cache=known)
    files = dict(table.world.storages.files)
    assert materialise(table.world, table.head, reversed(tail_by_version(table.head))) == first
    assert table.world.storages.files == files
    requests = len(table.world.storages.requests)
    assert materialise(table.world, table.head, tail_by_version(table.head), cache=known) == first
    assert len(table.world.storages.requests) == requests


def test_i4_a_name_that_holds_other_bytes_is_not_given_out_until_publication_makes_it_moot() -> None:
    table = Table(fake_world())
    version = table.inline()
    table.put(staged_path(table.names[version]), b"foreign\n")
    with pytest.raises(StorageFault) as caught:
        materialise(table.world, table.head, tail_by_version(table.head))
    assert caught.value.details["retry_after_ms"] > 0
    Publisher(table.world).publish(TABLE)
    table.check_all_published()
    assert materialise(table.world, table.head, tail_by_version(table.head)) == {1: len(table.ratified[1])}


def test_a_clients_own_copy_that_is_complete_by_the_second_look_is_fine() -> None:
    table = Table(fake_world())
    version = table.inline()
    path = staged_path(table.names[version])
    table.put(path, table.ratified[version][:20])
    storage = type(table.storage)
    original = storage.read
    looks: list[str] = []

    def read(self, path, limit=None):  # type: ignore[no-untyped-def]
        found = original(self, path, limit)
        looks.append(path)
        table.put(path, table.ratified[version])
        return found

    storage.read = read  # type: ignore[method-assign]
    try:
        materialise(table.world, table.head, tail_by_version(table.head))
    finally:
        storage.read = original  # type: ignore[method-assign]
    assert len(looks) == 2


def test_lost_inline_content_is_reported() -> None:
    table = Table(fake_world())
    table.inline(size=12_000)
    assert table.head.tail[0].obj
    for key in [key for key in table.world.objs.rows if key[1].startswith("inline/")]:
        table.world.objs.delete(*key)
    with pytest.raises(ContentMissing):
        materialise(table.world, table.head, tail_by_version(table.head))

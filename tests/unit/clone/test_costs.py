"""The cost of a clone: requests grow with the number of names, and not with the data."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.catalog import counted, create, fakes, filled, fresh
from tests.support.clones import clone, commit, iceberg_table
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices


def lake(tables: int, commits: int = 1) -> CatalogServices:
    """``sales`` with so many Delta tables of so many published commits."""
    services = fresh()
    services.namespaces.create("main", ("sales",))
    for number in range(tables):
        id = create(services, f"t{number}", "sales")
        for count in range(commits):
            commit(fakes(services), id)
            if count % 50 == 0:
                services.publisher.publish(id)
        services.publisher.publish(id)
    return services


def costs(services: CatalogServices, source: str = "sales", **moment: object) -> Counter[str]:
    return Counter(counted(services, lambda: clone(services, source, "dev", **moment)))


@pytest.mark.parametrize("tables", [1, 5, 30])
def test_a_clone_of_delta_tables_takes_a_snapshot_each_and_five_requests_in_all(tables: int) -> None:
    requests = costs(lake(tables))
    assert requests == {
        "refs.read": 1,  # the catalog's row
        "refs.read_many": 2,  # owners of locations, HEADs
        "objs.put": tables,  # metadata snapshots
        "objs.put_many": 1,  # the commit and its entities
        "refs.transact": 1,
    }


def test_a_clone_costs_the_same_however_much_data_there_is() -> None:
    one = lake(3, commits=1)
    other = lake(3, commits=20)
    assert costs(one) == costs(other)
    world = fakes(other)
    reads = list(world.storages.files)
    clone(other, "sales", "again")
    assert list(world.storages.files) == reads, "no file is written for Delta tables"


def test_a_clone_costs_the_same_in_a_large_catalog() -> None:
    services = filled(1000)
    services.namespaces.create("main", ("sales",))
    create(services, "t", "sales")
    requests = costs(services)
    assert sum(requests.values()) - requests["objs.get"] <= 7, requests
    assert requests["objs.get"] <= 1, requests


def test_a_version_of_the_past_is_found_with_a_dozen_reads_in_a_long_log() -> None:
    services = lake(1, commits=200)
    world = fakes(services)
    seq = services.reader.current("main").commit.seq
    time = services.history.tree("main", AsOf(seq=seq)).commit.at // 1000 + 600
    reads: list[str] = []
    original = world.storages.open

    def watched(location: str):  # type: ignore[no-untyped-def]
        storage = original(location)
        read = storage.read

        def counting(path: str, limit: int | None = None):  # type: ignore[no-untyped-def]
            reads.append(path)
            return read(path, limit)

        storage.read = counting  # type: ignore[method-assign]
        return storage

    world.storages.open = watched  # type: ignore[method-assign]
    (copy,) = clone(services, "sales", "dev", time=time).tables
    assert copy.version is not None and 0 < copy.version < 200
    assert len(reads) <= 12, reads


def test_a_clone_of_iceberg_tables_takes_a_place_and_a_file_each() -> None:
    services = fresh()
    services.namespaces.create("main", ("sales",))
    for number in range(5):
        iceberg_table(services, f"sales.t{number}")
    requests = costs(services)
    assert requests == {
        "refs.read": 1,
        "refs.read_many": 1,  # owners of locations
        "refs.write": 5,  # places
        "objs.put_many": 1,
        "refs.transact": 1,
    }

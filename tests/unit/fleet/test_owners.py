"""The member that a server asks to apply a catalog's changes (I21)."""

from __future__ import annotations

from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.core.owners import CATALOGS, Address, Owners

ADDRESS = Address("127.0.0.1", 1, "secret")


def test_the_owner_of_a_subjects_granule_is_asked() -> None:
    granule = granule_of(CATALOGS, "main", 8)
    other = next(name for name in (f"c{number}" for number in range(100)) if granule_of(CATALOGS, name, 8) != granule)
    owners = Owners(100, 8, {granule: ADDRESS})
    assert owners.of("main", 99) == ADDRESS
    assert owners.of(other, 99) is None


def test_what_is_believed_of_owners_ends() -> None:
    owners = Owners(100, 8, {granule_of(CATALOGS, "main", 8): ADDRESS})
    assert owners.of("main", 100) is None
    assert owners.of("main", 5_000) is None
    assert Owners().of("main", -1) is None
    assert Owners(100, 0, {"catalogs/0": ADDRESS}).of("main", 1) is None, "nobody knows how many granules there are"

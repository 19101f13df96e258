"""Every file of an Iceberg table, damaged in every way: told with its name, or without effect;
nothing that is named goes (I10, I24)."""

from __future__ import annotations

from collections import Counter

from tests.support.damage.iceberg_files import IcebergSite, counts


def test_i10_i24_every_damage_of_an_iceberg_table_is_reported_or_has_no_effect() -> None:
    shown: list[str] = []
    found = counts(IcebergSite(), shown.append)
    total: Counter[str] = sum(found.values(), Counter())
    assert not shown, "\n".join(shown[:10])
    assert set(total) == {"told", "no effect"}
    assert set(found["metadata file"]) == {"told"}
    assert set(found["data file"]) == {"no effect"}, "the catalog opens none"
    assert found["manifest"]["told"] > found["manifest"]["no effect"]
    assert found["manifest list"]["told"] > found["manifest list"]["no effect"]

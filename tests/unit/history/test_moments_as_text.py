"""Moments as users write them: one text for one moment, in queries, warehouses and prefixes, and
clear refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.api.iceberg import requests
from turnstile.catalog.core.paths import fold
from turnstile.catalog.history.core import AsOf, as_of_text, parse_as_of
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION

NAMES = st.from_regex(r"[A-Za-z0-9_@-]{1,40}", fullmatch=True)
NUMBERS = st.integers(0, MAX_VERSION)
MOMENTS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True).map(lambda one: AsOf(head=f"commit/{one}")),
    NUMBERS.map(lambda number: AsOf(seq=number)),
    NUMBERS.map(lambda ms: AsOf(time=ms)),
    NAMES.map(lambda name: AsOf(snapshot=fold(name))),
)


@given(MOMENTS)
def test_what_is_written_is_read_as_the_same_moment(as_of: AsOf) -> None:
    assert parse_as_of(as_of_text(as_of)) == as_of


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_a_time_is_one_moment_in_every_zone(there: datetime, minutes: int) -> None:
    local = there.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    ms = (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_as_of(f"time:{local.isoformat()}") == parse_as_of(f"time:{ms}") == AsOf(time=ms)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("head:commit/0a1b", AsOf(head="commit/0a1b")),
        ("head:0a1b", AsOf(head="commit/0a1b")),
        ("seq:0", AsOf(seq=0)),
        ("time:2026-11-01T00:00:00Z", AsOf(time=1_793_491_200_000)),
        ("time:2026-11-01T01:00:00.0009+01:00", AsOf(time=1_793_491_200_000)),
        ("snapshot:2026-11-01", AsOf(snapshot="2026-11-01")),
        ("snapshot:41", AsOf(snapshot="41")),
        ("snapshot:a@b", AsOf(snapshot="a@b")),
    ],
)
def test_examples(text: str, wanted: AsOf) -> None:
    assert parse_as_of(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "41", "month_end", "snapshot", "snapshot:", "snapshot:a:b", "snapshot:a/b", "Seq:1", "seq:", "seq:-1",
     "seq:1.5",
     "seq:²", "seq:99999999999999999", "head:", "head:commit/", "head:entity/1", "head:a/b", "head:a b", "time:",
     "time:now",
     "time:2026-11-01", "time:2026-11-01T00:00:00", "time:2026-11-01T00:00:00 01:00", "time:1969-12-31T23:59:59Z",
     "time:-5", "time:0001-01-01T00:00:00+14:00", "latest:1"],
)  # fmt: skip
def test_what_names_no_moment_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_as_of(text, "as_of")
    assert refused.value.field == "as_of"
    assert refused.value.remedy


@given(NAMES, MOMENTS)
def test_a_prefix_is_read_in_one_way_and_needs_no_escape_in_a_path(catalog: str, as_of: AsOf) -> None:
    """Catalogs may have ``@`` in their names, and may be called like the beginning of a moment."""
    prefix = requests.prefix(catalog, as_of)
    assert requests.warehouse(prefix) == (catalog, as_of)
    assert quote(prefix, safe=":@") == prefix
    assert requests.warehouse(catalog) == (catalog, None)


@pytest.mark.parametrize("text", ["", "a b", "@seq:1", "seq:1", "lake:seq@1", "a/b", "lake@seq:1/x", "lake@@:1"])
def test_what_is_no_warehouse_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        requests.warehouse(text)
    assert refused.value.field == "warehouse"

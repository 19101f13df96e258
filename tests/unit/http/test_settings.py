"""Settings are judged at the start, and the message names the variable."""

from __future__ import annotations

import pytest

from turnstile.adapters.credentials import StaticCredentials
from turnstile.api import settings as shared_settings
from turnstile.api.http import env as settings
from turnstile.gc.core import HOUR_MS
from turnstile.store.core.limits import SpillLimits


def test_settings_have_types_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_TEXT", "x")
    monkeypatch.setenv("T_NUMBER", "7")
    monkeypatch.setenv("T_FLAG", "TRUE")
    assert (settings.text("T_TEXT"), settings.integer("T_NUMBER", 1, 0, 9), settings.flag("T_FLAG")) == ("x", 7, True)
    assert (settings.text("T_NONE", "d"), settings.integer("T_NONE", 1, 0, 9), settings.flag("T_NONE")) == (
        "d",
        1,
        False,
    )
    assert settings.text("T_NONE", "") == ""


@pytest.mark.parametrize("value", ["x", "10", "-1", "1.5"])
def test_a_bad_setting_stops_the_start_and_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("T_SETTING", value)
    with pytest.raises(settings.BadSetting, match="T_SETTING"):
        settings.integer("T_SETTING", 1, 0, 9)
    with pytest.raises(settings.BadSetting, match="T_SETTING"):
        settings.flag("T_SETTING")
    with pytest.raises(settings.BadSetting, match="T_MISSING"):
        settings.text("T_MISSING")


@pytest.mark.parametrize(
    ("embedded", "segment"),
    [("0", "128"), ("65", "320"), ("8", "3"), ("8", "321"), ("8", "15"), ("64", "127"), ("x", "9")],
)
def test_sizes_of_an_index_out_of_bounds_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, embedded: str, segment: str
) -> None:
    monkeypatch.setenv("TURNSTILE_INDEX_EMBEDDED_KB", embedded)
    monkeypatch.setenv("TURNSTILE_INDEX_SEGMENT_KB", segment)
    with pytest.raises(settings.BadSetting, match="TURNSTILE_INDEX_"):
        shared_settings.spill()


def test_the_limits_of_a_catalog_are_read_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_settings.limits().spill == SpillLimits()
    monkeypatch.setenv("TURNSTILE_INDEX_EMBEDDED_KB", "16")
    monkeypatch.setenv("TURNSTILE_INDEX_SEGMENT_KB", "32")
    monkeypatch.setenv("TURNSTILE_HISTORY_HOURS", "5")
    found = shared_settings.limits()
    assert (found.spill, found.history_ms) == (SpillLimits(embedded=16 * 1024, segment=32 * 1024), 5 * HOUR_MS)
    monkeypatch.setenv("TURNSTILE_HISTORY_HOURS", "2")
    with pytest.raises(settings.BadSetting, match="TURNSTILE_HISTORY_HOURS"):
        shared_settings.limits()


def test_static_keys_are_whole_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_settings.vending() == shared_settings.Vending()
    monkeypatch.setenv("TURNSTILE_S3_ACCESS_KEY_ID", "id")
    with pytest.raises(settings.BadSetting, match="TURNSTILE_S3_SECRET_ACCESS_KEY"):
        shared_settings.vending()
    monkeypatch.setenv("TURNSTILE_S3_SECRET_ACCESS_KEY", "secret")
    assert shared_settings.vending().static == StaticCredentials("id", "secret")

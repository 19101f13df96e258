"""Settings are judged at the start, and the message names the variable."""

from __future__ import annotations

import pytest

from turnstile_http import settings


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

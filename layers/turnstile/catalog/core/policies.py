"""Policies of maintenance: the properties ``turnstile.maintenance.<name>`` of catalogs, namespaces
and tables (docs/maintenance.md).

Entities inherit a value from the nearest one that has it: table, its namespace, the namespaces
around it, the catalog, default. Sizes and intervals are written as Delta's users know them:
``128mb``, ``interval 7 days``; a plain number is bytes, or hours.

When a policy is set on a catalog or a namespace, or beside a table's log, ``check_policies``
refuses an invalid one. A commit is never refused for its policies: ``policy_of`` skips an invalid
value in favour of the inherited one, and reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from turnstile.catalog.core.follow_ups import FollowUpRule, follow_ups_of
from turnstile.catalog.core.windows import Windows, windows_of
from turnstile.delta.core.metadata import interval_ms
from turnstile.store.core.errors import InvalidRequest

PREFIX: Final = "turnstile.maintenance."

HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
LONGEST_MS: Final = 100 * 365 * 24 * HOUR_MS
MAX_BYTES: Final = 2**60

LevelKind = Literal["default", "catalog", "namespace", "table"]


class Policy(msgspec.Struct, frozen=True):
    """The effective values of a table.

    Attributes:
        enabled: whether anything below is done at all.
        optimize, reorg, vacuum: whether small files are put together, deletion vectors purged,
            files removed.
        target_file_bytes: size of the files that are written. Files below half of it are small.
        small_file_ratio, min_small_files: share and number of small files of a partition from which
            on it is rewritten.
        min_commits, min_bytes: commits, or bytes of new files, since the last run, from which on
            there is another one.
        deleted_row_ratio: share of rows that deletion vectors delete, of the files that have one,
            from which on they are purged.
        retention_ms: the age of files that vacuum removes; None: the table's own property.
        vacuum_interval_ms: from one vacuum to the next.
        windows: when work may be done; None: at any time.
        budget_bytes, budget_dpu_hours: of a table, for each day (UTC); None: no limit.
        follow_ups: the deployment's actions after publications, ``enabled`` or not.
    """

    enabled: bool
    optimize: bool
    reorg: bool
    vacuum: bool
    target_file_bytes: int
    small_file_ratio: float
    min_small_files: int
    min_commits: int
    min_bytes: int
    deleted_row_ratio: float
    retention_ms: int | None
    vacuum_interval_ms: int
    windows: Windows | None
    budget_bytes: int | None
    budget_dpu_hours: float | None
    follow_ups: tuple[FollowUpRule, ...] = ()


class Level(msgspec.Struct, frozen=True):
    """Something that has properties: ``name`` with its catalog, dotted."""

    kind: LevelKind
    name: str
    properties: Mapping[str, str]


class EffectiveValue(msgspec.Struct, frozen=True):
    """A value that holds, as it is written, and where it comes from; ``set_on`` is empty for a
    default."""

    name: str
    value: str
    source: LevelKind
    set_on: str = ""


class BadValue(msgspec.Struct, frozen=True):
    """A property that was passed over, and why."""

    name: str
    value: str
    source: LevelKind
    set_on: str
    problem: str


class EffectivePolicy(msgspec.Struct, frozen=True):
    """A table's policy, the source of each value, and the skipped properties."""

    policy: Policy
    values: tuple[EffectiveValue, ...]
    ignored: tuple[BadValue, ...] = ()


# -- values ------------------------------------------------------------------------------------------------------------

_SIZE: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,6})?) ?(b|kb?|mb?|gb?|tb?)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
_SWITCH: Final = {"true": True, "on": True, "false": False, "off": False}


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("true or false")
    return _SWITCH[text.lower()]


def _size(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        match = _SIZE.fullmatch(text)
        size = int(Decimal(match[1]) * _UNITS[(match[2] or "")[:1].lower()]) if match else -1
        if not least <= size <= MAX_BYTES:
            raise ValueError(f"a size of {least} bytes or more, as in 128mb")
        return size

    return read


def _interval(least_ms: int, least: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        ms = int(Decimal(text) * HOUR_MS) if _NUMBER.fullmatch(text) else interval_ms(text)
        if ms is None or not least_ms <= ms <= LONGEST_MS:
            raise ValueError(f"{least} or more, as in interval 7 days; a plain number is hours")
        return ms

    return read


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or int(text) < least:
            raise ValueError(f"a whole number, {least} or more")
        return int(text)

    return read


def _ratio(text: str) -> float:
    if not _NUMBER.fullmatch(text) or float(text) > 1:
        raise ValueError("a number from 0 to 1, as in 0.1")
    return float(text)


def _hours(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number of DPU-hours, as in 2.5")
    return float(text)


def _none_or(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.lower() == "none" else read(text)


class Setting(msgspec.Struct, frozen=True):
    """A property: its name behind ``PREFIX``, the attribute of ``Policy``, its default as it is
    written, and its parser."""

    name: str
    attribute: str
    default: str
    read: Callable[[str], Any]
    text: str


SETTINGS: Final = (
    Setting("enabled", "enabled", "false", _switch, "whether anything below is done"),
    Setting("optimize", "optimize", "true", _switch, "put small files together"),
    Setting("reorg", "reorg", "true", _switch, "rewrite files whose rows are deleted by deletion vectors"),
    Setting("vacuum", "vacuum", "false", _switch, "remove files that no pinned version needs"),
    Setting("target-file-size", "target_file_bytes", "1gb", _size(2**10), "size of files that are written"),
    Setting("small-file-ratio", "small_file_ratio", "0.1", _ratio, "least share of small files of a partition"),
    Setting("min-small-files", "min_small_files", "8", _count(2), "least number of small files of a partition"),
    Setting("min-commits", "min_commits", "10", _count(1), "commits since the last run"),
    Setting("min-bytes", "min_bytes", "256mb", _size(1), "or bytes of new files since the last run"),
    Setting("deleted-row-ratio", "deleted_row_ratio", "0.05", _ratio, "least share of deleted rows"),
    Setting("retention", "retention_ms", "none", _none_or(_interval(WEEK_MS, "7 days")),
            "age of files that are removed"),
    Setting("vacuum-interval", "vacuum_interval_ms", "interval 7 days", _interval(HOUR_MS, "an hour"),
            "between vacuums"),
    Setting("windows", "windows", "none", _none_or(windows_of), "when work may be done, in UTC"),
    Setting("budget-bytes", "budget_bytes", "none", _none_or(_size(0)), "bytes of a table that are rewritten a day"),
    Setting("budget-dpu-hours", "budget_dpu_hours", "none", _none_or(_hours), "DPU-hours for a table a day"),
    Setting("follow-ups", "follow_ups", "none", lambda text: () if text.lower() == "none" else follow_ups_of(text),
            "actions after publications, enabled or not"),
)  # fmt: skip
_BY_NAME: Final = {PREFIX + setting.name: setting for setting in SETTINGS}


def check_policies(properties: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
    """Raises InvalidRequest for an unknown or invalid property of maintenance. Properties that are
    unchanged since ``before`` pass: they may be older than the rule."""
    kept = before or {}
    for name, value in properties.items():
        if name.startswith(PREFIX) and kept.get(name) != value:
            problem = problem_of(name, value)
            if problem:
                raise InvalidRequest(
                    f"property {name[:100]!r}: {problem}",
                    field=f"properties.{name[:100]}",
                    remedy="docs/maintenance.md, Policies, lists the properties and their values",
                )


def problem_of(name: str, value: str) -> str:
    """Returns the fault of a property of maintenance, by its full name; empty for none."""
    setting = _BY_NAME.get(name)
    if setting is None:
        return f"there is no such policy; there are {', '.join(each.name for each in SETTINGS)}"
    try:
        setting.read(value.strip())
    except ValueError as error:
        return f"{value[:60]!r} is not {error}"
    return ""


def policy_of(levels: Iterable[Level]) -> EffectivePolicy:
    """Returns the policy of a table.

    Args:
        levels: the catalog, the namespaces from the outermost in, the table.
    """
    nearest_first = [*levels][::-1]
    values = list[EffectiveValue]()
    ignored = list[BadValue]()
    read = dict[str, Any]()
    for level in nearest_first:
        for name, value in level.properties.items():
            if name.startswith(PREFIX) and (problem := problem_of(name, value)):
                ignored.append(BadValue(name, value, level.kind, level.name, problem))
    for name, setting in _BY_NAME.items():
        effective = EffectiveValue(setting.name, setting.default, "default")
        for level in nearest_first:
            text = level.properties.get(name)
            if text is not None and not problem_of(name, text):
                effective = EffectiveValue(setting.name, text.strip(), level.kind, level.name)
                break
        read[setting.attribute] = setting.read(effective.value)
        values.append(effective)
    return EffectivePolicy(Policy(**read), tuple(values), tuple(ignored))

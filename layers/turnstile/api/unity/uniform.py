"""UniForm: conversion state rides with every commit of a table that is read as Iceberg too, and with no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstile.api.unity.requests import Iceberg
from turnstile.store.core.errors import InvalidRequest

_FORMATS: Final = "delta.universalFormat.enabledFormats"
_LOCATION_CHARACTERS: Final = 65_535


def needs_uniform(properties: Mapping[str, str]) -> bool:
    """Whether commits must carry Iceberg's conversion state."""
    return "iceberg" in [one.strip() for one in properties.get(_FORMATS, "").split(",")]


def check_uniform(given: Iceberg | None, version: int, properties: Mapping[str, str], location: str) -> None:
    """Raise InvalidRequest unless ``given`` is there exactly when it must be, and about this commit and table.

    Args:
        version: the commit's version; a new table (version 0) may also give 1.
        properties: the table's as they are after the commit.
        location: of the table.
    """
    if (given is not None) != needs_uniform(properties):
        how = "is missing" if given is None else "is given"
        raise InvalidRequest(f"uniform {how}, and {_FORMATS} says otherwise", field="uniform")
    if given is None:
        return
    allowed = (0, 1) if version == 0 else (version,)
    if given.converted_delta_version not in allowed or (
        version == 0 and given.base_converted_delta_version is not None
    ):
        raise InvalidRequest("converted-delta-version must be the commit's version", field="uniform.iceberg")
    path = given.metadata_location
    below = path.replace("file:///", "file:/").startswith(location.replace("file:///", "file:/").rstrip("/") + "/")
    if not below or len(path) > _LOCATION_CHARACTERS or "/../" in path + "/":
        raise InvalidRequest("metadata-location must be below the table's location", field="uniform.iceberg")

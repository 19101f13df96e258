"""Table features at the border of the catalog. Source: Delta protocol, "Table Features", "Supported
Features for Legacy Versions", "Catalog-managed tables"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from turnstile.delta.core.definition import CATALOG_MANAGED, FOR_WRITERS
from turnstile.store.core.errors import UnsupportedTable

Protocol = dict[str, Any]

_WRITER_BY_VERSION: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)
_ADDED_FOR_BOTH: Final = (CATALOG_MANAGED, "vacuumProtocolCheck")
_ADDED_FOR_WRITERS: Final = (*_ADDED_FOR_BOTH, "inCommitTimestamp")
OTHER_COORDINATORS: Final = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")


def features(protocol: Protocol, member: str) -> list[str]:
    """The list ``readerFeatures`` or ``writerFeatures``; empty for a legacy protocol."""
    return [str(feature) for feature in protocol.get(member) or ()]


def is_managed(protocol: Protocol) -> bool:
    """Whether some catalog, or a coordinator of an earlier design, decides the table's commits."""
    return any(feature in features(protocol, "writerFeatures") for feature in OTHER_COORDINATORS)


def as_features(protocol: Protocol) -> tuple[list[str], list[str]]:
    """Returns ``(readerFeatures, writerFeatures)``, listed in full also for a legacy protocol.
    Raises UnsupportedTable for versions that no released protocol has."""
    reader = protocol.get("minReaderVersion")
    writer = protocol.get("minWriterVersion")
    if not isinstance(reader, int) or not isinstance(writer, int) or not 1 <= reader <= 3 or not 1 <= writer <= 7:
        raise UnsupportedTable(
            f"the table's protocol ({reader!r}, {writer!r}) is not known here",
            field="location",
            remedy="use a release of Turnstile that knows it",
        )
    if writer == 7:
        for_writers = features(protocol, "writerFeatures")
    else:
        for_writers = [feature for version, added in _WRITER_BY_VERSION if version <= writer for feature in added]
    if reader == 3:
        return features(protocol, "readerFeatures"), for_writers
    return [feature for feature in ("columnMapping",) if reader == 2 and feature in for_writers], for_writers


def catalog_managed_protocol(protocol: Protocol, more: Iterable[str] = ()) -> Protocol:
    """The protocol with the catalog-managed contract, everything that it supported before, and the
    features ``more``."""
    for_readers, for_writers = as_features(protocol)
    more = tuple(more)
    for_writers = _with(for_writers, (*for_readers, *more))
    for_readers = _with(for_readers, tuple(feature for feature in more if feature not in FOR_WRITERS))
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": _with(for_readers, _ADDED_FOR_BOTH),
        "writerFeatures": _with(for_writers, _ADDED_FOR_WRITERS),
    }


def protocol_without_catalog(protocol: Protocol) -> Protocol:
    """The protocol without ``catalogManaged``. In-commit timestamps stay: earlier commits have
    them, and they do no harm."""
    return {
        **protocol,
        "readerFeatures": _without(features(protocol, "readerFeatures")),
        "writerFeatures": _without(features(protocol, "writerFeatures")),
    }


def added_features(before: Protocol, after: Protocol) -> list[str]:
    """Writer features that ``after`` lists and ``before`` does not support."""
    supported = as_features(before)[1]
    return [feature for feature in features(after, "writerFeatures") if feature not in supported]


def _with(supported: list[str], more: tuple[str, ...]) -> list[str]:
    return [*supported, *(feature for feature in more if feature not in supported)]


def _without(supported: list[str]) -> list[str]:
    return [feature for feature in supported if feature != CATALOG_MANAGED]

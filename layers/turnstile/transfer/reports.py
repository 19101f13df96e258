"""Reports of transfers; JSON-friendly."""

from __future__ import annotations

from typing import Any

import msgspec

from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.protocols import added_features, is_managed
from turnstile.store.core.errors import ErrorType, TurnstileError
from turnstile.transfer.commits import first_timestamp, import_txn, properties_after, protocol_after
from turnstile.transfer.survey import Survey


class Problem(msgspec.Struct, frozen=True):
    """Why a transfer is not possible; ``type`` is that of the error that it would raise."""

    type: str
    message: str
    remedy: str | None
    field: str | None


class ImportReport(msgspec.Struct, frozen=True):
    """The dry run of an import. ``version`` is the latest version of the log, ``upgrade_version``
    the one that would bring it under the catalog (both None where the log cannot be read);
    ``read_from`` is the source of protocol and metadata; ``features_added`` are writer features
    that the protocol names afterwards and does not imply now.
    """

    dry_run: bool
    possible: bool
    name: str
    location: str
    version: int | None
    upgrade_version: int | None
    read_from: str | None
    protocol: dict[str, Any] | None
    protocol_after: dict[str, Any] | None
    features_added: list[str]
    properties_set: dict[str, str]
    problems: list[Problem]
    notes: list[str]


class ExportReport(msgspec.Struct, frozen=True):
    """The report of an export or of its dry run. ``unpublished`` is the number of ratified versions
    that are (were) still to be published; from ``release_version`` on the file system decides."""

    dry_run: bool
    possible: bool
    name: str
    table_id: str
    location: str
    state: str
    latest: int
    unpublished: int
    release_version: int
    protocol_after: dict[str, Any] | None
    problems: list[Problem]
    notes: list[str]


def problem(error: TurnstileError) -> Problem:
    """An error as an entry of a report."""
    return Problem(error.type, error.message, error.remedy, error.field)


def import_report(catalog: str, path: Path, survey: Survey, now: int) -> ImportReport:
    """The report of a survey."""
    state = survey.state
    notes = list[str]()
    after = None
    version = None
    more = []
    changed = {}
    if survey.done:
        notes.append("the table was imported under this name already; nothing would be done")
    elif state is not None and survey.begun and state.info.get("txnId") == import_txn(survey.owner):
        notes.append("an earlier import wrote the upgrade commit and did not finish; it would be finished")
        version = state.version
    elif state is not None and not any(error.type == ErrorType.UNSUPPORTED_TABLE for error in survey.problems):
        after = protocol_after(state)
        version = state.version + 1
        more = added_features(state.protocol, after)
        before = state.metadata.get("configuration") or {}
        properties = properties_after(state, "<table_id>", first_timestamp(state, now))
        changed = {name: value for name, value in properties.items() if before.get(name) != value}
        notes.append("clients that do not know the catalogManaged feature cannot open the table by its path afterwards")
        if survey.taken_from:
            notes.append(
                f"another catalog decided about its commits, as {survey.taken_from}: with two on one log commits are "
                f"lost, so that one must "
                "never decide again"
            )
        elif is_managed(state.protocol):
            notes.append("the table was imported before and dropped; it would come back under a new id")
    return ImportReport(
        dry_run=True,
        possible=not survey.problems,
        name=dotted_name(catalog, *path),
        location=survey.location,
        version=None if state is None else state.version,
        upgrade_version=version,
        read_from=None if state is None else state.source,
        protocol=None if state is None else state.protocol,
        protocol_after=after,
        features_added=more,
        properties_set=changed,
        problems=[problem(error) for error in survey.problems],
        notes=notes,
    )


def export_report(
    head: TableHead, *, dry_run: bool, protocol_after: dict[str, Any] | None, problems: list[Problem], notes: list[str]
) -> ExportReport:
    """The report of an export of the table of ``head``."""
    return ExportReport(
        dry_run=dry_run,
        possible=not problems,
        name=head.name,
        table_id=head.table_id,
        location=head.location,
        state=head.state,
        latest=head.latest,
        unpublished=head.latest - head.floor,
        release_version=head.latest + 1,
        protocol_after=protocol_after,
        problems=problems,
        notes=notes,
    )

"""The request of a transaction: its commits, reads and changes of the catalog, as one group."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from turnstile_spark.transactions.groups import Group
from turnstile_spark.transactions.parts import Parts
from turnstile_spark.transactions.reads.catalog_reads import CatalogReadLog
from turnstile_spark.transactions.scopes.catalog_changes import CatalogChanges


def group_request(
    id: str,
    parts: Parts,
    *,
    inline: int,
    reads: list[dict[str, Any]],
    changes: CatalogChanges,
    catalog_reads: CatalogReadLog | None,
    attempt: str,
    has_journal: bool,
    reservation: str | None,
) -> Group:
    """The request of the transaction ``id``.

    Args:
        parts: its commits: the ones up to ``inline`` bytes travel in the request, others as files.
        reads: of tables, by ``table_read``.
        changes, catalog_reads: of the catalog.
        attempt: names the content of the request among the requests of this transaction.
        has_journal: whether the transaction is announced before it is sent.
        reservation: id of the reservation of its tables, if it has one.
    """
    body: dict[str, Any] = {"id": id, "commits": parts.bodies(inline), "reads": reads}
    if has_journal:
        body["journal"] = True
    if reservation is not None:
        body["reservation"] = reservation
    has_reads = catalog_reads is not None and (len(changes) > 0 or catalog_reads.has_answers)
    if changes or has_reads:
        body["changes"] = changes.bodies()
        if not has_journal:
            # Its id is an idempotency key of the server, so every content has one of its own.
            body["id"] = attempt_id(id, attempt)
        if catalog_reads is not None:
            body["catalog_reads"] = catalog_reads.bodies()
    return Group(id, parts.txn_id, body)


def attempt_id(id: str, attempt: str) -> str:
    """Returns the id that an attempt of the transaction ``id`` is sent with."""
    return str(uuid.uuid5(uuid.UUID(id), attempt))


def table_read(table_id: str, version: int, slack: int, predicates: Mapping[str, str]) -> dict[str, Any]:
    """The read of a table: ``version`` must still be the latest, or at most ``slack`` versions
    behind it; with a predicate among ``predicates`` the server checks the later commits by it."""
    body: dict[str, Any] = {"table_id": table_id, "version": version}
    if slack:
        body["slack"] = slack
    if predicate := predicates.get(table_id):
        body["predicate"] = predicate
    return body

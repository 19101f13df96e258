"""Adds the columns to a table that rows have and the table lacks: a commit of its own, before that
of the rows.

    1  read     the HEAD and its metadata
    2  derive   the new columns from the rows (``core.evolution``)
    3  judge    the rows by the definition with these columns: rows that do not fit add no column
    4  commit   the metadata with the columns, as the next version. If another commit took it, the
                steps begin again: the columns may be there by then

A crash after step 4 leaves a table with the columns and without the rows. The client sends the same
request again, and its rows are added.
"""

from __future__ import annotations

from typing import Final

from turnstile.delta.core.decide import Refused, not_active
from turnstile.delta.core.head import ACTIVE
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.transactions.groups import GroupRatified
from turnstile.ingest.core.evolution import new_columns, with_columns
from turnstile.ingest.core.identity import common_principal
from turnstile.ingest.turns import CHANGING, RowsRequest, convert
from turnstile.ingest.writing import ENGINE, Tools, current_head, require_inline
from turnstile_rows.commits import add_columns
from turnstile_rows.definitions import Definition

_ATTEMPTS: Final = 5


def evolve(tools: Tools, metadata: MetadataStore, request: RowsRequest) -> Refused | None:
    """Adds the columns that the rows of a request need, if any are missing now; afterwards the rows
    fit the table. Returns the refusal of the commit.

    Raises:
        InvalidRows, TooLarge: the rows do not fit the table, also with new columns; or these do not
            follow from the rows, or are too many. Nothing was added.
        UnsupportedTable: the table needs what only an engine does.
        OutcomeUnknown: it is not known whether the columns were added.
        StorageFault, Throttled: nothing was added.
    """
    for _ in range(_ATTEMPTS):
        head = current_head(tools.world, request.table_id)
        if head.state != ACTIVE:
            return not_active(head)
        definition = tools.definition_of(head)
        columns = new_columns(request.plain, request.media, definition)
        if not columns:
            convert(request, definition)
            return None
        stored = metadata.get(head.catalog, head.metadata)
        action = with_columns(stored.metadata, columns, lambda: f"col-{tools.world.ids.uuid()}")
        convert(request, Definition.of_actions({"protocol": stored.protocol, "metaData": action}, stored.domains))
        now = max(tools.world.clock.now_ms(), (head.last_ict or 0) + 1)
        content = add_columns(
            tools.world.ids.uuid(), now, head.latest, metadata=action, columns=columns, engine=ENGINE
        ).encode()
        text = "the table's definition with the new columns"
        require_inline(content, tools.limits, text, "add the columns with an engine")
        by = common_principal((request.identity,))
        commit = CommitRequest(head.table_id, head.latest + 1, base=head.latest, content=content, principal=by)
        answer = tools.groups.commit(GroupRequest(tools.world.ids.uuid(), (commit,)))
        if isinstance(answer, GroupRatified):
            return None
        decision = answer.members[0].decision
        if isinstance(decision, Refused):
            return decision
    return CHANGING

"""What a commit does to a table's metadata: the snapshot after it, and the mark of the row ids it may have assigned."""

from __future__ import annotations

import msgspec

from turnstile.delta.core.content import Content
from turnstile.delta.core.head import ROWS_KEPT, ROWS_OFF, ROWS_UNREAD, TableHead
from turnstile.delta.core.metadata import apply
from turnstile.delta.core.proposal import Proposal
from turnstile.delta.metadata import Snapshots
from turnstile.delta.proposals import CommitRequest


def with_effects(
    snapshots: Snapshots,
    head: TableHead,
    proposal: Proposal,
    content: Content,
    *,
    request: CommitRequest,
    now_ms: int,
) -> Proposal:
    """The proposal of ``request``, with the snapshot that its commit makes written and the one it was made from asserted.

    Args:
        head: the HEAD that the commit is to extend; its snapshot is the one before.
        now_ms: server clock (ms), when the snapshot is written.

    Raises:
        TurnstileError: what ``request.describe`` raises; nothing was written then.
    """
    if not content.changes_metadata and not request.always:  # not read whole: it may have assigned any row ids
        unread = not content.whole and head.row_hwm is not None and content.hwm is None
        return _with_mark(proposal, ROWS_UNREAD) if unread else proposal
    version = request.version or 0
    before = snapshots.get(head.catalog, head.metadata)
    if request.describe is None:
        after = apply(before, content, version)
    else:
        after = request.describe(head.metadata, before, content, version)
    metadata = snapshots.put(head.catalog, head.table_id, after, now_ms)
    if not after.row_tracking:
        proposal = _with_mark(proposal, ROWS_KEPT if head.row_hwm is None else ROWS_OFF)
    elif proposal.entry.hwm == ROWS_KEPT and (head.row_hwm is None or not content.whole):
        proposal = _with_mark(proposal, -1 if content.whole else ROWS_UNREAD)
    return msgspec.structs.replace(
        proposal,
        metadata=metadata,
        asserts=request.etag if request.etag is not None else head.metadata,
    )


def _with_mark(proposal: Proposal, hwm: int) -> Proposal:
    return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(proposal.entry, hwm=hwm))

"""Clones of Delta tables over Unity Catalog's APIs: refused, which is less than they could show and never wrong.

Engines find a table's files by its folder, and its uuid in its log. Nothing in these APIs says "this version and no
further": they would read what the source is by now, and commit to it. Keys for the folder would open all of that, too.
"""

from __future__ import annotations

from turnstile.delta.core.head import PINNED, TableHead
from turnstile.store.core.errors import UnsupportedTable


def require_no_clone(head: TableHead) -> TableHead:
    """``head``, unless it is a clone's.

    Raises:
        UnsupportedTable: it is.
    """
    if head.state == PINNED:
        raise UnsupportedTable(
            f"'{head.name}' is a clone, pinned to version {head.latest} of another table",
            field="table",
            remedy=f"read version {head.latest} of its source, or attach the catalog with turnstile_spark, which reads clones",
            version=head.latest,
        )
    return head

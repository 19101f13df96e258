"""The services that appends of rows share, and the data files that they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from turnstile.delta.commits import check_readable, read_head
from turnstile.delta.core.head import TableHead
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.undecided import seen_one
from turnstile.ingest.core.files import EncodedFile
from turnstile.ingest.core.identity import Identity
from turnstile.store.core.errors import TooLarge, UnsupportedTable
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World
from turnstile_rows.commits import DataFile
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import Unsupported

ENGINE: Final = "turnstile-rows"


class Tools(msgspec.Struct, frozen=True):
    """The services of turns. ``definition_of``: returns the definition of a HEAD's table, or raises
    UnsupportedTable."""

    world: World
    groups: GroupRatifier
    identities: IdentityIndex
    limits: Limits
    definition_of: Callable[[TableHead], Definition]

    def key_of(self, catalog: str, table_id: str, identity: Identity) -> str:
        """The key of the row that remembers a request; empty for one without an identity."""
        text = identity.text
        if not text:
            return ""
        return self.world.space.request(catalog, identity.principal, f"rows/{table_id}/{text}")


def current_head(world: World, table_id: str) -> TableHead:
    """Returns a table's HEAD as readers see it. Raises NotFound."""
    head = read_head(world, table_id)
    head = seen_one(world, head) if head.undecided else head
    check_readable(head)
    return head


def engine_error(error: Unsupported) -> UnsupportedTable:
    """The refusal of a table that needs an engine."""
    return UnsupportedTable(str(error), remedy="write the rows with an engine that does")


def name_files(world: World, files: Sequence[EncodedFile]) -> list[DataFile]:
    """Returns the files of a commit, with fresh names."""
    now = world.clock.now_ms()
    return [
        DataFile(
            f"part-{world.ids.uuid()}.snappy.parquet",
            file.partition_values,
            len(file.content),
            now,
            file.stats,
            file.rows,
        )
        for file in files
    ]


def write_files(world: World, location: str, files: Sequence[DataFile], encoded: Sequence[EncodedFile]) -> None:
    """Writes the named files below a table's location."""
    storage = world.storages.open(location)
    for file, parquet in zip(files, encoded, strict=True):
        storage.put_if_absent(file.path, parquet.content)  # a file that is there is this one: its name is new


def require_inline(content: bytes, limits: Limits, text: str, remedy: str) -> None:
    """Raises TooLarge for the content of a commit that a row of the store cannot hold."""
    if len(content) > limits.inline_bytes:
        text = f"{text} has {len(content)} bytes"
        raise TooLarge(text, field="body", remedy=remedy, limit=limits.inline_bytes, size=len(content))

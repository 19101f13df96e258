"""Adds the rows of a request to a Delta table, at most once (I26).

    1  read the HEAD             its latest version is the base of the append
    2  look for the identity     in the HEAD's tail, then in the index: found, the first answer is given again
    3  judge the rows            by the metadata of that HEAD; nothing is written for rows that do not fit
    4  write the data files      under fresh names, which no commit has yet
    5  propose a blind append    for any version after the base, under the identity of the request

A crash after any step leaves at most files that no commit names, for VACUUM. A request that is
sent again finds its earlier commit in step 2, or in step 5 where it came between: the proposal asks
for all identities after the base. Where the table's definition changed after the base, or the
producer committed, everything is done anew from the new HEAD. When the answer of step 5 is lost,
the outcome is unknown, and the client sends the same request again.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from turnstile.delta.commits import check_readable, read_head
from turnstile.delta.core.decide import Conflict, Ratified, Refused, find_identity, not_active
from turnstile.delta.core.head import ACTIVE, TableHead, tail_by_version
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.ingest.budget import ByteBudget
from turnstile.ingest.core.bodies import rows_of
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.files import EncodedFile, encode_files
from turnstile.ingest.core.identity import Identity, sequence_passed
from turnstile.ingest.sequences import Sequences
from turnstile.store.cache import Lru
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled, TooLarge, UnsupportedTable
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World
from turnstile_rows.commits import DataFile, append
from turnstile_rows.definitions import Definition, check_appendable
from turnstile_rows.errors import DataMismatch, Unsupported

ENGINE: Final = "turnstile-rows"
_ENGINE_REMEDY: Final = "write the rows with an engine that does"
_ATTEMPTS: Final = 5
_BUDGET_BYTES: Final = 64 * 1024 * 1024
"""Bytes of rows that a process has in memory; a principal may have half of them. As objects of
Python they take up to ten times as much."""
_DEFINITIONS: Final = 1_000


class RowsRequest(msgspec.Struct, frozen=True):
    """The rows of a request, after decompression; ``media``: one of ``core.bodies.FORMATS``."""

    plain: bytes
    media: str
    identity: Identity


class Appended(msgspec.Struct, frozen=True):
    """The rows are in ``version``. ``rows``: how many; None where an earlier request with this
    identity added them (``replayed``)."""

    version: int
    rows: int | None
    replayed: bool


class RowAppender:
    """Appends rows. One per sandbox: it caches definitions of tables."""

    def __init__(self, world: World, ratifier: Ratifier, metadata: MetadataStore, limits: Limits | None = None) -> None:
        self._world = world
        self._ratifier = ratifier
        self._metadata = metadata
        self._limits = limits or Limits()
        self._identities = IdentityIndex(world.objs, world.space, world.clock, self._limits.identity_days)
        self._sequences = Sequences(world)
        self._definitions = Lru[str, Definition](_DEFINITIONS)
        self.budget = ByteBudget(_BUDGET_BYTES, _BUDGET_BYTES // 2)

    def append(self, head: TableHead, request: RowsRequest) -> Appended | Conflict | Refused:
        """Adds the rows to the table of ``head``, which was just read.

        Returns:
            The version with the rows; or the last refusal of the proposal, where the table changed
            during every attempt, or takes no commits.

        Raises:
            InvalidRows: a row does not fit the table.
            TooLarge: the rows are too many, or of too many partitions.
            UnsupportedTable: the table needs what only an engine does.
            StateConflict: the producer has passed this sequence.
            OutcomeUnknown: it is not known whether the rows were added.
            StorageFault, Throttled: nothing was added.
        """
        decision: Conflict | Refused | None = None
        txn = request.identity.txn or self._world.ids.uuid()
        encoded: tuple[str, list[DataFile]] = ("", [])
        for _ in range(_ATTEMPTS):
            check_readable(head)
            earlier = self._earlier(head, request.identity)
            if earlier is not None:
                return Appended(earlier, None, replayed=True)
            if head.state != ACTIVE:
                return not_active(head)
            definition = self._definition(head)
            if encoded[0] != head.metadata:
                files = self._judged(request, definition)
                named = [self._name_file(file) for file in files]
                self._content(head, txn, named, definition, request.identity)  # before a file is written
                self._write(head, files, named)
                encoded = (head.metadata, named)
            answer = self._propose(head, txn, encoded[1], definition, request.identity)
            if isinstance(answer, Ratified):
                rows = None if answer.replayed else sum(file.rows for file in encoded[1])
                return Appended(answer.version, rows, answer.replayed)
            if isinstance(answer, Refused):
                return answer
            decision = answer
            head = read_head(self._world, head.table_id)
        assert decision is not None
        return decision

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _earlier(self, head: TableHead, identity: Identity) -> int | None:
        """The version that an earlier request with this identity became. Raises StateConflict for a
        sequence that its producer has passed."""
        if not identity.txn:
            return None
        place = find_identity(tail_by_version(head), identity.txn)
        if place is not None:
            return place.version
        if head.tail_from > 1:  # identities of versions have left the tail
            try:
                version = self._identities.recall(head.catalog, head.table_id, [identity.txn])
            except (StorageFault, Throttled) as error:  # the rows may have been added long ago
                raise OutcomeUnknown(f"earlier requests could not be read: {error.message}") from error
            if version is not None:
                return version
        if identity.producer is not None:
            last = self._sequences.last_of(head, identity.producer.producer)
            passed = None if last is None else sequence_passed(identity.producer, last)
            if passed is not None:
                raise passed
        return None

    def _definition(self, head: TableHead) -> Definition:
        definition = self._definitions.get(head.metadata)
        if definition is None:
            definition = definition_of(self._metadata.get(head.catalog, head.metadata))
            self._definitions.put(head.metadata, definition)
        try:
            check_appendable(definition)
        except Unsupported as error:
            raise UnsupportedTable(str(error), remedy=_ENGINE_REMEDY) from None
        return definition

    def _judged(self, request: RowsRequest, definition: Definition) -> list[EncodedFile]:
        try:
            return encode_files(rows_of(request.plain, request.media, definition), definition)
        except DataMismatch as error:
            raise InvalidRows(str(error), field="body") from None
        except Unsupported as error:
            raise UnsupportedTable(str(error), remedy=_ENGINE_REMEDY) from None

    def _name_file(self, file: EncodedFile) -> DataFile:
        name = f"part-{self._world.ids.uuid()}.snappy.parquet"
        now = self._world.clock.now_ms()
        return DataFile(name, file.partition_values, len(file.content), now, file.stats, file.rows)

    def _write(self, head: TableHead, files: list[EncodedFile], named: list[DataFile]) -> None:
        storage = self._world.storages.open(head.location)
        for file, data in zip(files, named, strict=True):
            if not storage.put_if_absent(data.path, file.content):
                raise StorageFault(f"{data.path} is there already", remedy="send the same request again")

    def _propose(
        self, head: TableHead, txn: str, files: list[DataFile], definition: Definition, identity: Identity
    ) -> Ratified | Conflict | Refused:
        content = self._content(head, txn, files, definition, identity)
        return self._ratifier.commit(CommitRequest(head.table_id, None, base=head.latest, content=content))

    def _content(
        self, head: TableHead, txn: str, files: list[DataFile], definition: Definition, identity: Identity
    ) -> bytes:
        now = self._world.clock.now_ms()
        content = append(
            txn, now, head.latest, files=files, definition=definition, engine=ENGINE, producer=identity.producer
        ).encode()
        if len(content) > self._limits.inline_bytes:
            raise TooLarge(
                f"the commit of these rows has {len(content)} bytes",
                field="body",
                remedy="send rows of fewer partitions in one request",
                limit=self._limits.inline_bytes,
                size=len(content),
            )
        return content


def definition_of(metadata: DeltaMetadata) -> Definition:
    """Returns a table's definition. Raises UnsupportedTable for a type that only engines know."""
    body = metadata.metadata
    try:
        return Definition.of_loaded(
            {
                "protocol": metadata.protocol,
                "schema": json.loads(body["schemaString"]),
                "partition_columns": body.get("partitionColumns"),
                "properties": body.get("configuration"),
                "domains": metadata.domains,
            }
        )
    except Unsupported as error:
        raise UnsupportedTable(str(error), remedy="write the rows with an engine that knows it") from None

"""Writes checkpoints, and the pointer to the newest one.

    1  sidecars          of the V2 spec only; readers ignore one that no checkpoint names
    2  the checkpoint    put-if-absent, whole or not at all; before its last bytes are sent the
                         caller's ``guard`` may refuse
    3  _last_checkpoint  after the checkpoint, and never to an older one than it names

A crash after any step leaves a table that is read as before, or from the checkpoint. Two workers
with the same version write the same name: the first one counts, and both hold the same state, less
tombstones that expired in between. A file that is there after all, with the size (V2: the bytes)
of the one that was sent, is this worker's: the answer to its first attempt was lost. Files are
written while the state is read: one row group is in memory.

Sources: Delta protocol, "Checkpoints", "V2 Spec", "Sidecar Files", "Last Checkpoint File".
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
from pyarrow import compute, parquet

from turnstile.delta.core.pointer import (
    POINTER,
    POINTER_BYTES,
    WrittenCheckpoint,
    pointed_version,
    pointer_of,
)
from turnstile.delta.log.files import read_commit
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.maintenance.columns import OTHER, FileColumns, other_array
from turnstile.maintenance.core.checksums import Totals, checksum_of
from turnstile.maintenance.core.upkeep import Upkeep
from turnstile.maintenance.file_actions import Columns, Rows
from turnstile.maintenance.state import TableState
from turnstile.store.core.names import LOG
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import Ids, LogStorage, has_content

SIDECAR_ACTIONS: Final = 50_000
"""Actions of one sidecar, about; Delta's own number."""
GROUP_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a row group, in memory."""
_NAMESPACE: Final = uuid.UUID("3a1d6f0e-4a57-5f0b-8f53-7f6f0a4cf1d2")

Guard = Callable[[], None]


class CheckpointState(Protocol):
    """The parts of a ``TableState`` that are in a checkpoint."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, dict[str, Any]]
    transactions: dict[str, dict[str, Any]]

    def chunks(self) -> Iterator[Rows | Columns]: ...


class CheckpointWriter:
    """Writes the checkpoint of one state."""

    def __init__(
        self,
        storage: LogStorage,
        state: TableState | CheckpointState,
        upkeep: Upkeep,
        ids: Ids,
        faults: Faults = no_faults,
    ) -> None:
        self._storage = storage
        self._state = state
        self._upkeep = upkeep
        self._ids = ids
        self._faults = faults
        self._columns = FileColumns(state.metadata, upkeep)
        self.totals = Totals()

    def write(self, now_ms: int, guard: Guard = lambda: None) -> WrittenCheckpoint | None:
        """Writes the checkpoint.

        Args:
            now_ms: the time by which tombstones and transactions expire.
            guard: called before a file is created; its error is raised, and there is no file.

        Returns:
            the written checkpoint; None if a checkpoint of that name is there already.

        Raises:
            UnsupportedTable: the state cannot be read, or not be written as the table asks.
            StorageFault: it is unknown whether the checkpoint was written; call again.
        """
        return self._write_v2(now_ms, guard) if self._upkeep.v2 else self._write_classic(now_ms, guard)

    # -- the two kinds ----------------------------------------------------------------------------------------------

    def _write_classic(self, now_ms: int, guard: Guard) -> WrittenCheckpoint | None:
        version = self._state.version
        name = f"{version:020d}.checkpoint.parquet"
        path = f"{LOG}{name}"
        if self._storage.stat(path) is not None:
            return None
        other = self._other(now_ms)
        schema = pa.schema([*OTHER.items(), ("add", self._columns.add), ("remove", self._columns.remove)])

        def batches() -> Iterator[pa.RecordBatch]:
            for action, bodies in other.items():
                if bodies:
                    yield _batch(schema, action, other_array(action, bodies))
            yield from self._files(schema, now_ms)

        sent = _Counted(parquet_pieces(schema, batches(), self._upkeep.codec, guard))
        self._storage.put_if_absent(path, sent)
        stat = self._storage.stat(path)
        if stat is None or stat.size != sent.size:
            return None
        self._faults("checkpoint.written")
        count = self.totals.actions + sum(map(len, other.values()))
        return WrittenCheckpoint(
            version, count, self.totals.adds, stat.size, name, stat.size, stat.modified_ms, unique=False
        )

    def _write_v2(self, now_ms: int, guard: Guard) -> WrittenCheckpoint | None:
        version = self._state.version
        name = name_of(self._state.metadata.get("id"), version)
        path = f"{LOG}{name}"
        if self._storage.stat(path) is not None:
            return None
        sidecars = self._sidecars(now_ms, guard)
        size = sum(sidecar["sizeInBytes"] for sidecar in sidecars)
        tags = {
            "sidecarNumActions": str(self.totals.actions),
            "sidecarSizeInBytes": str(size),
            "numOfAddFiles": str(self.totals.adds),
        }
        other = self._other(now_ms)
        actions = [{"checkpointMetadata": {"version": version, "tags": tags}}]
        actions += [{action: body} for action, bodies in other.items() for body in bodies]
        actions += [{"sidecar": sidecar} for sidecar in sidecars]
        content = b"\n".join(map(msgspec.json.encode, actions)) + b"\n"
        guard()
        if not self._storage.put_if_absent(path, content) and not has_content(self._storage, path, content):
            return None
        self._faults("checkpoint.written")
        stat = self._storage.stat(path)
        at_ms = stat.modified_ms if stat is not None else now_ms
        count = self.totals.actions + len(actions)
        whole = size + len(content)
        return WrittenCheckpoint(version, count, self.totals.adds, whole, name, len(content), at_ms, unique=True)

    def _sidecars(self, now_ms: int, guard: Guard) -> list[dict[str, Any]]:
        """Writes the file actions into sidecars; returns the ``sidecar`` actions that name them."""
        schema = pa.schema([("add", self._columns.add), ("remove", self._columns.remove)])
        batches = self._files(schema, now_ms)
        written = list[dict[str, Any]]()
        while (first := next(batches, None)) is not None:
            name = f"{self._ids.uuid()}.parquet"
            pieces = parquet_pieces(schema, _some(first, batches), self._upkeep.codec, guard)
            self._storage.put_if_absent(f"{SIDECARS}{name}", pieces)
            self._faults("checkpoint.sidecar")
            stat = self._storage.stat(f"{SIDECARS}{name}")
            size, at_ms = (stat.size, stat.modified_ms) if stat is not None else (0, now_ms)
            written.append({"path": name, "sizeInBytes": size, "modificationTime": at_ms, "tags": {}})
        return written

    # -- actions ----------------------------------------------------------------------------------------------------

    def _other(self, now_ms: int) -> dict[str, list[dict[str, Any]]]:
        """The actions that are about no file."""
        state = self._state
        kept = [txn for txn in state.transactions.values() if self._upkeep.keeps_transaction(txn, now_ms)]
        return {
            "protocol": [state.protocol],
            "metaData": [state.metadata],
            "txn": kept,
            "domainMetadata": list(state.domains.values()),
        }

    def _files(self, schema: pa.Schema, now_ms: int) -> Iterator[pa.RecordBatch]:
        """The file actions that are kept, and counts them."""
        for chunk in self._state.chunks():
            adds = self._columns.adds(chunk)
            if adds is not None:
                self._add_up(adds)
                yield _batch(schema, "add", adds)
            removes = self._columns.removes(chunk, lambda at: self._upkeep.keeps_tombstone(at, now_ms))
            if removes is not None:
                self.totals.actions += len(removes)
                yield _batch(schema, "remove", removes)

    def _add_up(self, adds: pa.StructArray) -> None:
        self.totals.adds += len(adds)
        self.totals.actions += len(adds)
        self.totals.size_bytes += compute.sum(adds.field("size")).as_py() or 0
        vectors = adds.field("deletionVector").drop_null()
        self.totals.vectors += len(vectors)
        self.totals.deleted += (compute.sum(vectors.field("cardinality")).as_py() or 0) if len(vectors) else 0


def name_of(metadata_id: object, version: int) -> str:
    """Returns the file name of a checkpoint of the second kind: each attempt has the same."""
    unique = uuid.uuid5(_NAMESPACE, f"{metadata_id}/{version}")
    return f"{version:020d}.checkpoint.{unique}.json"


def write_checksum(storage: LogStorage, state: TableState, totals: Totals, upkeep: Upkeep, now_ms: int) -> bool:
    """Writes the version checksum of a state after its checkpoint, with its ``totals``;
    False if there is one."""
    content = checksum_of(
        read_commit(storage, state.version).info,
        protocol=state.protocol,
        metadata=state.metadata,
        transactions=[txn for txn in state.transactions.values() if upkeep.keeps_transaction(txn, now_ms)],
        domains=list(state.domains.values()),
        totals=totals,
    )
    return storage.put_if_absent(f"{LOG}{state.version:020d}.crc", content)


def write_pointer(storage: LogStorage, written: WrittenCheckpoint) -> bool:
    """Makes ``_last_checkpoint`` lead to a checkpoint, unless it leads to a newer one; returns
    whether it does now. It is a hint: readers look for newer checkpoints, and do without it."""
    file = storage.read(POINTER, POINTER_BYTES)
    pointed = pointed_version(file[0]) if file is not None else None
    if pointed is not None and pointed > written.version:
        return False
    storage.replace(POINTER, pointer_of(written))
    return True


# -- Parquet ----------------------------------------------------------------------------------------------------------


def parquet_pieces(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], codec: str, guard: Guard = lambda: None
) -> Iterator[bytes]:
    """Yields a Parquet file of ``batches`` piece by piece; calls ``guard`` before the last one."""
    sink = _Sink()
    written = {"compression": codec, "version": "2.6", "store_schema": False, "write_page_checksum": True}
    with parquet.ParquetWriter(sink, schema, **written) as writer:
        group: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            group.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group, schema))
                group = []
                size = 0
                yield sink.take()
        if group:
            writer.write_table(pa.Table.from_batches(group, schema))
            del group
            yield sink.take()
        guard()
    yield sink.take()


class _Counted:
    """Pieces of a file; ``size`` is the number of bytes that were taken of them."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.size += len(piece)
            yield piece


class _Sink(io.RawIOBase):
    """The bytes of a Parquet writer since they were taken last."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._held += data
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        held = bytes(self._held)
        self._held = bytearray()
        return held


def _batch(schema: pa.Schema, name: str, structs: pa.StructArray) -> pa.RecordBatch:
    """Rows with one action each, all of the same ``name``."""
    columns = [structs if field.name == name else pa.nulls(len(structs), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _some(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``first`` and as many more as one sidecar holds."""
    count = len(first)
    yield first
    while count < SIDECAR_ACTIONS and (batch := next(batches, None)) is not None:
        count += len(batch)
        yield batch

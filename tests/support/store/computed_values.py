"""Examples of computed values that are stored, or sent, and looked for again later; and names of
files that a later state of the code must know.

``tests/unit/store/test_computed_ids.py`` compares the lines with its list.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.support.fakes.storage import FakeClock
from turnstile.access.clients import hash_of as client_hash
from turnstile.adapters import files as local_files
from turnstile.adapters.credentials import session_name
from turnstile.adapters.dynamo import refs as dynamo_refs
from turnstile.adapters.event_targets import Webhook
from turnstile.adapters.follow_up_actions import SparkJob
from turnstile.adapters.sqlite import copies
from turnstile.adapters.sqlite import refs as sqlite_refs
from turnstile.adapters.sqlite.database import Database
from turnstile.api import row_batches
from turnstile.api.doctor import checks
from turnstile.api.http import idempotency
from turnstile.api.http.request import Request
from turnstile.api.iceberg.responses import etag
from turnstile.api.unity import older_catalogs
from turnstile.api.v1.transactions import catalogs
from turnstile.catalog.paging import place_of
from turnstile.catalog.query.find import token_kind_of
from turnstile.coordination.core.named_ref import token_of
from turnstile.delta.core import head, pointer, segments, undecided
from turnstile.delta.core.reservations import holder_of, owner_of
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.delta.transactions import journal
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.fleet.core import decisions
from turnstile.iceberg import files as iceberg_files
from turnstile.iceberg.core import metadata
from turnstile.ingest.core import deliveries
from turnstile.ingest.core.identity import digest_of as rows_digest
from turnstile.ingest.core.identity import identity_of
from turnstile.maintenance import checkpoint
from turnstile.maintenance.state import TableState
from turnstile.planning import appends, changes, finding, leaves, pages
from turnstile.planning.core.roots import FOLDER, root_id
from turnstile.store import stored_objs
from turnstile.store.core import opaque
from turnstile.store.core.names import LOG, STAGED, inline_unique
from turnstile.store.core.rows import Space, app_key, identity_obj, identity_objs, inline_obj, metadata_obj
from turnstile.store.core.writes import Insert
from turnstile.store.ports import Obj
from turnstile_predicates.predicates import And, Comparison
from turnstile_server.fleet import forwarding
from turnstile_server.home import Home
from turnstile_server.settings import ServerSettings
from turnstile_spark.transactions.requests import attempt_id

UUID: Final = "6f0f2a6e-3c1f-4a7e-9d0a-0a3a52f7c101"
STAGED_NAME: Final = f"{7:020d}.{UUID}.json"
INLINE_NAME: Final = f"{7:020d}.{inline_unique('txn-1')}.json"
NOW_MS: Final = 1_795_717_104_252
EVENT: Final = CloudEvent("event-1", "/v1/catalogs/main", "turnstile.committed", UUID, {"name": "main.default.t"})
GROUP: Final = GroupRequest(UUID, (CommitRequest(UUID, 7, content=b"content"),))


def ids() -> Iterator[str]:
    """Yields one line for each computed value, of a fixed example."""
    yield from _keys()
    yield from _objs()
    yield from _requests()
    yield from _rows()
    yield from _tokens()
    yield from _contents()
    yield from _secrets()


def _keys() -> Iterator[str]:
    space = Space("realm")
    for name, method in inspect.getmembers(space, inspect.ismethod):
        if not name.startswith("_"):
            count = len(inspect.signature(method).parameters)
            arguments = [f"Arg{n}" for n in range(count)]
            if name == "fleet_moves":
                arguments[-1] = 7  # type: ignore[call-overload]
            yield f"Space.{name} {method(*arguments)}"
    yield f"app_key {app_key('app-1')}"
    yield f"inline_unique {inline_unique('txn-1')}"
    yield f"group_ref {undecided.group_ref(UUID, b'proposals')}"
    yield f"holder_of {holder_of('ann', UUID)}"
    yield f"owner_of {owner_of('ann')}"
    yield f"file_key {segments.file_key('a.parquet', 'uvector@1').hex()}"
    yield f"token_of {token_of(7, 'request-1', 'after')}"


def _objs() -> Iterator[str]:
    for what, identity in (("txn", "txn-1"), ("staged", STAGED_NAME), ("inline", INLINE_NAME)):
        yield f"identity_obj {what} {identity_obj(UUID, identity)}"
        yield f"identity_objs {what} {' '.join(identity_objs(UUID, identity))}"
    yield f"inline_obj {inline_obj(UUID, NOW_MS, b'content')}"
    yield f"metadata_obj {metadata_obj(UUID, 7, b'content')}"
    yield f"root_id {root_id(UUID, 7, b'content')}"
    part = journal.CatalogPart("main", b"changes", b"reads")
    obj = journal._pack(GROUP)[0]
    yield f"announced_obj {obj}"
    yield f"announced_obj with changes {journal._pack(GROUP, part)[0]}"
    yield f"announced_entry {journal.entry_id(UUID, obj)}"
    whole = Obj("s", "commit/1", "commit", b"x" * 900_000, NOW_MS)
    parts, row = stored_objs.split(whole)
    assert isinstance(row, stored_objs.LargeObj)
    assert stored_objs.holds(row, whole) and stored_objs.join_parts(row, {one.id: one for one in parts}) == whole
    yield f"obj_parts {' '.join(one.id for one in parts)} {row.digest.hex()}"


def _requests() -> Iterator[str]:
    request = Request("POST", "/v1/catalogs/main", "", {}, {"b": ["2"], "a": ["1"]}, b"body", "")
    yield f"keyed_request {idempotency.digest_of(request)}"
    yield f"catalog_transaction_entry {catalogs.sent_entry_id(UUID, '/v1/catalogs/main', b'body')}"
    yield f"replayed_transaction {attempt_id(UUID, 'attempt-2')}"
    yield f"unity_id of the realm {older_catalogs.id_of('realm', '')}"
    yield f"unity_id of a catalog {older_catalogs.id_of('realm', 'Main')}"
    yield f"etag {etag('s3://lake/t/metadata/1.json')}"
    yield f"dynamo_token {dynamo_refs._client_token('t' * 40)}"
    write = Insert({"key": "realm/client/a", "kind": "client", "names": {"b", "a"}}, ())
    yield f"sqlite_transaction {sqlite_refs.digest_of([write]).hex()}"
    run = SparkJob("compact", "application-1", {"entry": "s3://lake/job.py", "role": "role"}).run_of(EVENT)
    yield f"spark_run {run['clientToken']}"
    signed = Webhook("hook", "https://hook", b"key", FakeClock(NOW_MS))._signature_headers([EVENT], b"[]")
    yield f"webhook {signed['webhook-id']} {signed['webhook-signature']}"


def _rows() -> Iterator[str]:
    yield f"rows_digest {rows_digest(b'rows', 'text/csv')}"
    yield f"rows_identity key {identity_of('ann', UUID.upper(), None, None).text}"
    yield f"rows_identity producer {identity_of('ann', None, 'p', '7').text}"
    message: dict[str, Any] = {
        "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-west-1:1:rows", "messageId": "message-1",
        "body": "{}", "attributes": {"SentTimestamp": str(NOW_MS)},
    }  # fmt: skip
    keyed = message | {"messageAttributes": {deliveries.KEY: {"stringValue": "key-1"}}}
    ordered = message | {
        "attributes": {"SentTimestamp": str(NOW_MS), "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    }
    by_content = message | {
        "attributes": {"SentTimestamp": str(NOW_MS), "MessageDeduplicationId": sha256(b"{}").hexdigest()}
    }
    data = {"sequenceNumber": "49", "data": "e30=", "approximateArrivalTimestamp": NOW_MS / 1000}
    record = {
        "eventSource": "aws:kinesis", "eventSourceARN": "arn:aws:kinesis:eu-west-1:1:stream/rows",
        "eventID": "shardId-000000000000:49", "kinesis": data,
    }  # fmt: skip
    for what, delivery in (
        ("message", deliveries._message(message)),
        ("message with a key", deliveries._message(keyed)),
        ("message of a group", deliveries._message(ordered)),
        ("message with the digest of its body", deliveries._message(by_content)),
        ("record of a stream", deliveries._stream_record(record)),
    ):
        yield f"delivery {what} {delivery.identity} {deliveries.refused_path(delivery)}"


def _tokens() -> Iterator[str]:
    yield f"token checksum {opaque._checksum(b'packed').hex()}"
    yield f"page place_of {place_of('main/default')}"
    yield f"page find {token_kind_of('main.*')}"
    yield f"page finding {finding.digest_of('main.*', 'a > 1')}"
    predicate = And((Comparison(("a", "b"), ">", 1), Comparison(("c",), "=", "x")))
    yield f"page appends {appends.digest_of(predicate)}"
    yield f"page plan {pages.digest_of(predicate)}"
    state: Any = SimpleNamespace(start=10, _checkpoint=("a.checkpoint.parquet",), _sidecars=("b.parquet",))
    source = TableState.identity.fget  # type: ignore[attr-defined]
    yield f"page state {source(state)}"


def _contents() -> Iterator[str]:
    yield f"staged_digest {head.digest_of(b'content')}"
    yield f"pointer checksum {pointer.checksum_of({'version': 7, 'size': 3})}"
    storage: Any = SimpleNamespace(read=lambda *_: (b"content", SimpleNamespace(size=7)))
    stamp = changes.stamp_of(storage, 7)
    assert stamp is not None
    yield f"index stamp {stamp.hex()}"
    yield f"index leaf {leaves.digest_of(b'content').hex()}"
    yield f"checkpoint {checkpoint.name_of(UUID, 7)}"
    members = {"location": "s3://lake/t", "schema": {"type": "struct", "fields": []}}
    metadata._supply_defaults(members)
    yield f"iceberg table-uuid {members['table-uuid']}"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "turnstile.db"
        copy.write_bytes(b"content")
        yield f"backup {copies._digest(copy)}"
    yield f"iceberg file {iceberg_files._digest(b'content').hex()}"


def _secrets() -> Iterator[str]:
    yield f"client secret {client_hash('secret', b'salt')}"
    yield f"session_name {session_name('ann smith')}"
    yield f"fleet hash_of {decisions.hash_of('member-1', 1_000_000)}"
    yield f"fleet proof {forwarding._proof('secret', b'owner', b'nonces').hex()}"


def files() -> Iterator[str]:
    """Yields names and prefixes of cached, hidden and local files."""
    yield f"log {LOG}"
    yield f"staged {STAGED}"
    yield f"sidecars {SIDECARS}"
    yield f"pointer {pointer.POINTER}"
    yield f"index {FOLDER}"
    yield f"temporary {local_files._TEMPORARY} {local_files._TEMPORARY_NAME.pattern}"
    yield f"iceberg folder {iceberg_files.FOLDER_MARK}"
    yield f"refused rows {row_batches.REFUSED}"
    yield f"checks {checks.FOLDER}"
    yield f"backup {copies.STORE_FILE} {copies.MANIFEST_FILE}"
    home = Home.at("/srv")
    settings = ServerSettings("/srv")
    yield f"home store {settings.store}"
    yield f"home lake {settings.lake_root}"
    for name, _ in inspect.getmembers(Home, lambda member: isinstance(member, property)):
        yield f"home {name} {getattr(home, name)}"
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "turnstile.db")
        database.touch()
        names = sorted(path.name for path in Path(folder).iterdir())
        database.close()
    yield f"sqlite {' '.join(names)}"

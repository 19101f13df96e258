"""Writes that land while their answers are lost, against a real store: the writer hears what
happened (I3)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.fakes import delta
from tests.support.store.backends import OBJS_TABLE, REALM, REFS_TABLE, Backend
from tests.support.store.clients import Deaf
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.adapters import FileStorages, RandomIds, SystemClock
from turnstile.adapters.dynamo.calls import PATIENCE
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Present, SetSum
from turnstile.store.ports import AllAccepted, Obj, World


def _deaf(service: Backend, lost: int, **patience: float) -> DynamoRefs:
    times = msgspec.structs.replace(PATIENCE, **{"first_s": 0.001, **patience})
    return DynamoRefs(Deaf(service.client, lost), REFS_TABLE, realm=REALM, patience=times)


def _world(service: Backend, lost: int) -> World:
    clock = SystemClock()
    objs = DynamoObjs(service.client, OBJS_TABLE, clock=clock)
    return World(_deaf(service, lost), objs, FileStorages(), clock, RandomIds(), Space(REALM))


@pytest.mark.parametrize("version", [6, None])
@pytest.mark.parametrize("lost", [1, 3])
def test_i3_a_commit_whose_answers_were_lost_is_a_success_once_one_arrives(
    service: Backend, key: str, version: int | None, lost: int
) -> None:
    """The trap: landed, sent again by the client library, reported as a conflict with itself."""
    world = _world(service, lost)
    table = key.rpartition("/")[2]
    metadata = MetadataStore(world.objs, world.space).put("main", table, DeltaMetadata(0, {}, {}, {}), 1)
    stored(service.refs(), head_row(key, metadata=metadata))
    content = delta.append("mine", world.clock.now_ms())
    answer = Ratifier(world).commit(CommitRequest(table, version, base=5, content=content))
    assert isinstance(answer, Ratified)
    assert answer.version == 6
    row = service.refs().read(key)
    assert row is not None
    assert (row["latest"], len(row["tail"])) == (6, 1)


def test_i3_a_transaction_whose_answer_was_lost_is_applied_once(service: Backend) -> None:
    keys = [fresh_key(), fresh_key()]
    for key in keys:
        stored(service.refs(), head_row(key))
    writes = [change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),)) for key in keys]
    assert _deaf(service, 2).transact(writes, keys[0]) == AllAccepted()
    assert [row["latest"] for row in service.refs().read_many(keys).values()] == [6, 6]


def test_i3_when_no_answer_ever_comes_the_outcome_is_unknown_although_it_landed(service: Backend, key: str) -> None:
    stored(service.refs(), head_row(key))
    with pytest.raises(OutcomeUnknown):
        _deaf(service, 999, deadline_s=0.05).write(
            change(key, SetSum(("latest",), ("latest",), 1), when=(Present(("key",)),))
        )
    row = service.refs().read(key)
    assert row is not None
    assert row["latest"] > 5


def test_i9_an_obj_whose_answer_was_lost_is_no_duplicate(service: Backend, space: str) -> None:
    objs = DynamoObjs(Deaf(service.client, 2), OBJS_TABLE, clock=SystemClock())
    objs.put(Obj(space, "metadata/a", "metadata", b"payload", 1))
    assert service.objs().get(space, "metadata/a") == Obj(space, "metadata/a", "metadata", b"payload", 1)

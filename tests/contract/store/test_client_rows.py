"""Registered clients on every backend (I12): their row is written, changed, scanned and removed as
the plans say."""

from __future__ import annotations

import secrets
import uuid

import pytest

from tests.support.store.backends import Backend
from turnstile.access.clients import Clients
from turnstile.access.core.client_rows import delete_client, rotate_secret
from turnstile.adapters import FileStorages, RandomIds, SystemClock
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import NotFound
from turnstile.store.core.rows import Space
from turnstile.store.ports import Rejected, World


def world(backend: Backend, requests: list[str] | None = None) -> World:
    realm = f"clients-{uuid.uuid4().hex[:8]}"

    def count(operation: str, _capacity: float | None) -> None:
        if requests is not None:
            requests.append(operation)

    refs = backend.refs(count, realm)
    return World(refs, backend.objs(), FileStorages(), SystemClock(), RandomIds(), Space(realm))


def test_i12_a_client_lives_as_its_plans_say(backend: Backend) -> None:
    here = world(backend)
    clients = Clients(here, secrets.token_bytes)
    made = clients.create("etl", ["b", "a"], admin=False, creator=OPERATOR)
    id = made.client.client_id
    assert clients.get(id) == made.client
    assert clients.list() == ([made.client], [])
    assert clients.principal(id, made.secret) == Principal(id, frozenset({"a", "b"}))

    second = clients.rotate(id, keep_s=60)
    assert second.client == clients.get(id)
    assert [clients.principal(id, one.secret) is not None for one in (made, second)] == [True, True]
    assert isinstance(here.refs.write(rotate_secret(made.client, "x", keep_until=0, now=1)), Rejected)
    third = clients.rotate(id, keep_s=0)
    assert third.client.former == ""
    assert [clients.principal(id, one.secret) is not None for one in (made, second, third)] == [False, False, True]

    clients.delete(id)
    assert clients.list() == ([], [])
    with pytest.raises(NotFound):
        clients.get(id)
    assert isinstance(here.refs.write(delete_client(made.client.key)), Rejected)


def test_a_client_without_roles_is_stored(backend: Backend) -> None:
    clients = Clients(world(backend), secrets.token_bytes)
    made = clients.create("nothing yet", [], admin=True, creator=OPERATOR)
    assert clients.get(made.client.client_id).principal == Principal(made.client.client_id, frozenset(), admin=True)


def test_a_token_costs_one_read(backend: Backend) -> None:
    requests: list[str] = []
    clients = Clients(world(backend, requests), secrets.token_bytes)
    made = clients.create("etl", [], admin=False, creator=OPERATOR)
    requests.clear()
    assert clients.principal(made.client.client_id, made.secret) is not None
    assert clients.principal(made.client.client_id, "wrong") is None
    assert clients.principal("no such client", "wrong") is None
    assert requests == (["get_item"] * 2 if backend.real else [])

"""Registered clients (I12): the rights that a secret gives, and its lifetime."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.access.clients import MAX_KEEP_S, SALT_BYTES, Clients, ClientWithSecret, hash_of, matches
from turnstile.access.core.client_rows import Client, delete_client, rotate_secret
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected


def make() -> tuple[Clients, FakeWorld]:
    world = fake_world()
    count = itertools.count(1)
    return Clients(world, lambda size: next(count).to_bytes(size)), world


def registered(clients: Clients, **more: Any) -> ClientWithSecret:
    return clients.create("etl", more.pop("roles", ["writers"]), admin=more.pop("admin", False), creator=OPERATOR)


def test_a_client_is_known_by_its_secret() -> None:
    clients, _ = make()
    made = registered(clients)
    shown = clients.principal(made.client.client_id, made.secret)
    assert shown == Principal(made.client.client_id, frozenset({"writers"}))
    assert clients.principal(registered(clients, admin=True, roles=[]).client.client_id, made.secret) is None
    assert registered(clients, admin=True, roles=[]).client.principal.admin


@pytest.mark.parametrize("secret", ["", "x", "\ud800", "é" * 1000])
def test_i12_a_wrong_secret_opens_nothing(secret: str) -> None:
    clients, _ = make()
    made = registered(clients)
    assert clients.principal(made.client.client_id, secret) is None
    assert clients.principal(made.client.client_id, made.secret + secret) in (None, made.client.principal)
    assert clients.principal(made.client.client_id, made.client.secret) is None, "the hash is not the secret"


@pytest.mark.parametrize("id", ["", "client-", "client-1", "operator", "../table/x", "client-" + "a" * 3000, "\ud800"])
def test_i12_an_id_that_is_none_has_no_secret_not_even_an_empty_one(id: str) -> None:
    clients, _ = make()
    assert clients.principal(id, "") is None
    for ask in (clients.get, clients.delete):
        with pytest.raises(NotFound):
            ask(id)
    with pytest.raises(NotFound):
        clients.rotate(id, keep_s=0)


def test_secrets_are_kept_as_salted_hashes_only() -> None:
    clients, world = make()
    one = registered(clients)
    two = registered(clients)
    kept = repr(list(world.refs.scan("client")))
    assert one.secret not in kept
    assert two.secret not in kept
    assert one.client.secret.split("$")[:4] == ["scrypt", "12", "8", "1"]
    assert one.client.secret.split("$")[4] != two.client.secret.split("$")[4]
    assert len(one.secret) == 43


def test_hashes_of_other_parameters_still_count() -> None:
    import hashlib

    salt = bytes(SALT_BYTES)
    older = hashlib.scrypt(b"x", salt=salt, n=2**10, r=4, p=2, dklen=32).hex()
    assert matches("x", f"scrypt$10$4$2${salt.hex()}${older}")
    assert not matches("y", hash_of("x", salt))
    kept = hash_of("x", salt)
    assert matches("x", kept)
    assert not matches("x", kept[:-1] + ("0" if kept[-1] != "0" else "1")), "to the last bit"


def test_i12_a_rotated_secret_counts_no_more_unless_it_is_kept_and_then_for_so_long() -> None:
    clients, world = make()
    first = registered(clients)
    id = first.client.client_id
    second = clients.rotate(id, keep_s=0)
    assert clients.principal(id, first.secret) is None
    assert clients.principal(id, second.secret) is not None
    third = clients.rotate(id, keep_s=60)
    assert all(clients.principal(id, one.secret) is not None for one in (second, third))
    world.clock.now += 59_900
    assert clients.principal(id, second.secret) is not None
    world.clock.now += 100
    assert clients.principal(id, second.secret) is None
    assert clients.principal(id, third.secret) is not None


def test_i12_a_rotation_at_once_ends_a_secret_that_was_still_kept() -> None:
    clients, _ = make()
    first = registered(clients)
    id = first.client.client_id
    clients.rotate(id, keep_s=MAX_KEEP_S)
    last = clients.rotate(id, keep_s=0)
    assert clients.principal(id, first.secret) is None
    assert (last.client.former, last.client.former_until) == ("", 0)


@pytest.mark.parametrize("keep", [-1, MAX_KEEP_S + 1])
def test_how_long_a_secret_is_kept_is_bounded(keep: int) -> None:
    clients, _ = make()
    with pytest.raises(InvalidRequest):
        clients.rotate(registered(clients).client.client_id, keep_s=keep)


def test_i12_of_two_rotations_at_once_one_is_refused_rather_than_its_secret_dead() -> None:
    clients, world = make()
    made = registered(clients)
    write = world.refs.write
    others: list[ClientWithSecret] = []

    def late(plan: Write) -> Accepted | Rejected:
        if not others:
            others.append(made)
            others.append(clients.rotate(made.client.client_id, keep_s=0))
        return write(plan)

    world.refs.write = late  # type: ignore[method-assign]
    with pytest.raises(StateConflict) as caught:
        clients.rotate(made.client.client_id, keep_s=0)
    assert caught.value.type == "ConcurrentChange"
    assert clients.principal(made.client.client_id, others[1].secret) is not None


def test_i12_a_deleted_client_gets_nothing_and_does_not_come_back() -> None:
    clients, world = make()
    made = registered(clients)
    clients.delete(made.client.client_id)
    assert clients.principal(made.client.client_id, made.secret) is None
    assert isinstance(world.refs.write(rotate_secret(made.client, "x", keep_until=0, now=1)), Rejected)
    assert isinstance(world.refs.write(delete_client(made.client.key)), Rejected)
    assert world.refs.read(made.client.key) is None


def test_i12_a_client_of_one_realm_is_unknown_in_another() -> None:
    clients, world = make()
    made = registered(clients)
    other = Clients(replace(world, space=Space("other")), bytes)
    assert other.principal(made.client.client_id, made.secret) is None


def test_i12_an_id_that_is_taken_keeps_its_principal() -> None:
    clients, world = make()
    made = registered(clients)
    world.ids.uuid = lambda: made.client.client_id.removeprefix("client-")  # type: ignore[method-assign]
    with pytest.raises(StateConflict):
        clients.create("another", [], admin=True, creator=OPERATOR)
    assert clients.get(made.client.client_id) == made.client


def test_the_time_of_a_secrets_change_is_reported() -> None:
    clients, world = make()
    made = registered(clients)
    world.clock.now += 5000
    assert clients.rotate(made.client.client_id, keep_s=0).client.changed_at >= made.client.created + 5000


def test_clients_are_listed_oldest_first() -> None:
    clients, _ = make()
    made = [registered(clients).client.client_id for _ in range(3)]
    assert [client.client_id for client in clients.list()[0]] == made


@pytest.mark.parametrize("name", ["", " a", "a\n", "a" * 256])
def test_a_name_or_role_that_cannot_be_one_is_refused(name: str) -> None:
    clients, _ = make()
    with pytest.raises(InvalidRequest):
        clients.create(name, [], admin=False, creator=OPERATOR)
    with pytest.raises(InvalidRequest):
        clients.create("etl", [name], admin=False, creator=OPERATOR)


@pytest.mark.parametrize("roles", [["operator"], ["client-x"], ["anonymous"], [f"r{n}" for n in range(101)]])
def test_i12_a_role_is_not_another_principals_name(roles: list[str]) -> None:
    clients, _ = make()
    with pytest.raises(InvalidRequest):
        clients.create("etl", roles, admin=False, creator=OPERATOR)


def test_a_row_reads_back_as_the_client_that_was_written() -> None:
    clients, world = make()
    made = registered(clients).client
    row = world.refs.read(made.key)
    assert row is not None
    assert Client.from_row(row) == made == clients.get(made.client_id)

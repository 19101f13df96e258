"""One world per sandbox: clients are built once and shared by everything that runs in it."""

from __future__ import annotations

from turnstile.adapters.clients import dynamodb
from turnstile.adapters.clock import SystemClock
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.ids import RandomIds
from turnstile.adapters.storages import FileStorages
from turnstile.store.core.keys import Space
from turnstile.store.world import World


def open_world(*, refs_table: str, objs_table: str, realm: str, endpoint_url: str | None = None) -> World:
    """Ports on DynamoDB, S3 and the local file system.

    Nothing is sent here. Clients are cached per process; S3's is built when a table on S3 is opened first.

    Args:
        refs_table: name of the mutable table.
        objs_table: name of the write-once table.
        realm: tenant; every key starts with it.
        endpoint_url: where an emulator listens; None is AWS, or what AWS_ENDPOINT_URL says.
    """
    clock, client = SystemClock(), dynamodb(endpoint_url)
    return World(
        refs=DynamoRefs(client, refs_table, realm=realm),
        objs=DynamoObjs(client, objs_table, clock=clock),
        storages=FileStorages(endpoint_url),
        clock=clock,
        ids=RandomIds(),
        space=Space(realm),
    )

"""The settings of the functions from their environment (template.yaml explains the variables). Each
function reads only its own, at its start, so that a bad deployment fails at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from turnstile.adapters import open_world, secret
from turnstile.adapters.credentials import StaticCredentials, open_credential_vendor
from turnstile.adapters.machine import SystemClock
from turnstile.api.auth.settings import Accepted, AuthSettings
from turnstile.api.http import env
from turnstile.api.http.request import current
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.store.core.limits import ROW_BUDGET, Limits, SpillLimits
from turnstile.store.faults import Faults, faults_from, no_faults
from turnstile.store.ports import CredentialVendor, World

if TYPE_CHECKING:
    from turnstile.delta.core.writes.ratify import Keep
    from turnstile.events.deliver import EventTarget

_YEARS = 10 * 366 * 24  # hours


class Stores(msgspec.Struct, frozen=True):
    """Names of the two tables, and the tenant."""

    refs_table: str
    objs_table: str
    realm: str

    def open(self) -> World:
        """Returns the world in them; nothing is sent yet."""
        return open_world(refs_table=self.refs_table, objs_table=self.objs_table, realm=self.realm)


class Vending(msgspec.Struct, frozen=True):
    """The source of clients' credentials: a role to narrow, or static ones; neither if clients
    bring their own. ``lake_key`` is the KMS key of the lake, which sessions of the role include."""

    role: str = ""
    lake_key: str = ""
    static: StaticCredentials | None = None

    def open(self, world: World) -> CredentialVendor:
        return open_credential_vendor(
            world.clock, world.ids, role=self.role, key=self.lake_key, static=self.static, who=_asking
        )


def _asking() -> str:
    """The name of the principal of the present request; empty if there is none."""
    try:
        return current().principal.name
    except LookupError:
        return ""


def _no_tokens() -> None:
    """There are no tokens."""


class Settings(msgspec.Struct, frozen=True):
    """The settings of one function; settings that it does not read have their defaults.

    ``lake_root`` is the location below which new tables go; ``grace`` how long garbage stays;
    ``table_ms`` the longest turn of one table in a batch or a sweep; ``workers`` the tables, or
    files, handled at once; ``sweep_rows`` the rows that a sweep reads besides the noted tables;
    ``auth`` the tokens that are accepted now; ``event_waits`` the number of requests that may wait
    for events at once, ``event_waits_each`` of one principal; ``event_targets`` the targets of
    events, ``follow_ups`` the actions that tables may request; ``delivers_alone`` whether no other
    process sends them; ``metadata_bytes`` the largest metadata file of an Iceberg table that is
    written (None: the limit of an answer of Lambda); ``answer_bytes`` the largest answer to a GET
    of Iceberg's API (None: Lambda's limit); ``looks_at_logs`` whether the log of a table is checked
    before its first commit of the process; ``branches_function`` the name of the function that
    gives tables of branches their logs (empty: this process does).
    """

    stores: Stores | None = None
    lake_root: str = "file:///lake"
    limits: Limits = Limits()
    grace: Grace = Grace()
    vending: Vending = Vending()
    table_ms: int = 60_000
    workers: int = 8
    sweep_rows: int = 64
    keep_published: Keep | None = None
    faults: Faults = no_faults
    auth: Callable[[], AuthSettings | None] = _no_tokens
    looks_at_logs: bool = False
    event_waits: int = 8
    event_waits_each: int = 8
    metadata_bytes: int | None = None
    answer_bytes: int | None = None
    event_targets: tuple[EventTarget, ...] = ()
    follow_ups: tuple[EventTarget, ...] = ()
    delivers_alone: bool = False
    branches_function: str = ""


# -- of each function -------------------------------------------------------------------------------------------------
# All of these raise BadSetting, with the variable's name, for one that is missing or has the wrong
# form.


def commit() -> Settings:
    """Returns the settings of the commit function."""
    backlog_bytes = env.integer("TURNSTILE_BACKLOG_BYTES", ROW_BUDGET, 4_000, ROW_BUDGET)
    own = msgspec.structs.replace(limits(), backlog_bytes=backlog_bytes)
    return Settings(stores=stores(), limits=own, branches_function=branches_function())


def catalog() -> Settings:
    """Returns the settings of the catalog function."""
    return msgspec.structs.replace(branches(), vending=vending(), branches_function=branches_function())


def branches() -> Settings:
    """Returns the settings of the branches function."""
    return Settings(stores=stores(), lake_root=env.text("TURNSTILE_LAKE_ROOT"), grace=grace(), limits=limits())


def plans() -> Settings:
    """Returns the settings of the plans function."""
    return Settings(stores=stores(), limits=limits())


def ingest() -> Settings:
    """Returns the settings of the function that takes rows."""
    return commit()


def rows() -> Settings:
    """Returns the settings of the function that takes rows of a queue or a stream."""
    return msgspec.structs.replace(ingest(), lake_root=env.text("TURNSTILE_LAKE_ROOT"))


def iceberg() -> Settings:
    """Returns the settings of the Iceberg function."""
    return Settings(
        stores=stores(),
        lake_root=env.text("TURNSTILE_LAKE_ROOT"),
        limits=limits(),
        vending=vending(),
        branches_function=branches_function(),
    )


def tokens() -> Settings:
    """Returns the settings of the tokens function."""
    return Settings(stores=stores(), auth=Accepted())


def publish() -> Settings:
    """Returns the settings of the function that publishes the changes which a stream names."""
    table_ms = 1000 * env.integer("TURNSTILE_PUBLISH_TABLE_SECONDS", 20, 1, 600)
    workers = env.integer("TURNSTILE_PUBLISH_WORKERS", 8, 1, 32)
    return Settings(stores=stores(), table_ms=table_ms, workers=workers, faults=faults_from(os.environ))


def events() -> Settings:
    """Returns the settings of the function that makes events of the changes which a stream
    names."""
    return Settings(stores=stores(), faults=faults_from(os.environ), event_targets=event_targets())


def maintain() -> Settings:
    """Returns the settings of the function that does light work."""
    return Settings(stores=stores(), faults=faults_from(os.environ), follow_ups=follow_ups())


def gc() -> Settings:
    """Returns the settings of the scheduled functions."""
    table_ms = 1000 * env.integer("TURNSTILE_SWEEP_TABLE_SECONDS", 60, 1, 600)
    sweep_rows = env.integer("TURNSTILE_SWEEP_ROWS", 64, 1, 100_000)
    workers = env.integer("TURNSTILE_GC_WORKERS", 8, 1, 32)
    faults = faults_from(os.environ)
    return Settings(
        stores=stores(), table_ms=table_ms, workers=workers, sweep_rows=sweep_rows, grace=grace(), faults=faults
    )


# -- the variables ----------------------------------------------------------------------------------------------------


def stores() -> Stores:
    """Returns the names of the tables."""
    refs_table = env.text("TURNSTILE_REFS_TABLE")
    objs_table = env.text("TURNSTILE_OBJS_TABLE")
    return Stores(refs_table, objs_table, env.text("TURNSTILE_REALM", "default"))


def vending() -> Vending:
    """Returns the source of clients' credentials. Static ones are for S3-compatible stores without
    STS."""
    id = secret.text("TURNSTILE_S3_ACCESS_KEY_ID")
    static = None
    if id:
        key = secret.text("TURNSTILE_S3_SECRET_ACCESS_KEY")
        token = secret.text("TURNSTILE_S3_SESSION_TOKEN")
        if not key:
            raise env.BadSetting("TURNSTILE_S3_SECRET_ACCESS_KEY is not set, but the id of a key is")
        static = StaticCredentials(id=id, secret=key, token=token)
    role = env.text("TURNSTILE_VENDING_ROLE", "")
    lake_key = env.text("TURNSTILE_LAKE_KEY", "")
    return Vending(role=role, lake_key=lake_key, static=static)


def grace() -> Grace:
    """Returns how long garbage stays, and a catalog's past."""
    return Grace(
        staged_ms=_hours("TURNSTILE_STAGED_GRACE_HOURS", 24),
        staging_ms=_hours("TURNSTILE_STAGING_GRACE_HOURS", 24),
        dropped_ms=_hours("TURNSTILE_DROP_GRACE_HOURS", 168),
        history_ms=_hours("TURNSTILE_HISTORY_HOURS", 168, 3),
    )


def spill() -> SpillLimits:
    """Returns when a catalog's index spills, and how large a segment of it becomes.

    The bounds keep a commit and a segment within one row each (``adapters.dynamo.objs``): a change
    that brings in many names at once embeds up to four times as much. Processes that differ in
    these sizes read each other's trees.
    """
    embedded = env.integer("TURNSTILE_INDEX_EMBEDDED_KB", 8, 1, 64)
    segment = env.integer("TURNSTILE_INDEX_SEGMENT_KB", 128, 4, 320)
    if segment < 2 * embedded:
        raise env.BadSetting(
            f"TURNSTILE_INDEX_SEGMENT_KB must be at least twice TURNSTILE_INDEX_EMBEDDED_KB: {segment} and {embedded} "
            f"would "
            "cut a segment at every spill"
        )
    return SpillLimits(embedded=embedded * 1024, segment=segment * 1024)


def limits() -> Limits:
    """Returns the limits of a function that changes catalogs."""
    return Limits(spill=spill(), history_ms=grace().history_ms, unnamed_ms=grace().unnamed_ms)


def event_targets() -> tuple[EventTarget, ...]:
    """Returns where events are sent to."""
    description = env.text("TURNSTILE_EVENT_TARGETS", "")
    if not description:
        return ()
    from turnstile.adapters.event_targets import BadTarget, open_targets

    try:
        return tuple(open_targets(description, env.text("TURNSTILE_EVENT_SECRET", ""), SystemClock()))
    except BadTarget as error:
        raise env.BadSetting(f"TURNSTILE_EVENT_TARGETS: {error}") from None


def branches_function() -> str:
    """Returns the name of the function that gives tables of branches their logs; empty for this
    process."""
    return env.text("TURNSTILE_BRANCHES_FUNCTION", "")


def follow_ups() -> tuple[EventTarget, ...]:
    """Returns the actions that the rules of tables may name."""
    description = env.text("TURNSTILE_FOLLOW_UPS", "")
    if not description:
        return ()
    from turnstile.adapters.event_targets import BadTarget
    from turnstile.adapters.follow_up_actions import open_actions

    try:
        return tuple(open_actions(description, env.text("TURNSTILE_EVENT_SECRET", ""), SystemClock()))
    except BadTarget as error:
        raise env.BadSetting(f"TURNSTILE_FOLLOW_UPS: {error}") from None


def _hours(name: str, default: int, least: int = 1) -> int:
    return HOUR_MS * env.integer(name, default, least, _YEARS)

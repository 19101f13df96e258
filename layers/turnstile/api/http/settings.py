"""What several functions read from their environment, each setting in one place (template.yaml explains them)."""

from __future__ import annotations

import msgspec

from turnstile.adapters import open_world
from turnstile.adapters.credentials import Keys, open_vendor
from turnstile.api.http import env
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.store.core.limits import Limits, SpillLimits
from turnstile.store.ports import Vendor, World

_YEARS = 10 * 366 * 24  # hours

KB = 1024


class Stores(msgspec.Struct, frozen=True):
    """Names of the two tables, and the tenant."""

    refs_table: str
    objs_table: str
    realm: str

    def open(self) -> World:
        """The world in them; nothing is sent yet."""
        return open_world(refs_table=self.refs_table, objs_table=self.objs_table, realm=self.realm)


class Vending(msgspec.Struct, frozen=True):
    """What clients get keys from: a role to narrow, or static ones; neither where they bring their own. ``lake_key`` is
    the KMS key of the lake, which sessions of the role include."""

    role: str = ""
    lake_key: str = ""
    keys: Keys | None = None

    def open(self, world: World) -> Vendor:
        """The vendor of keys."""
        return open_vendor(world.clock, world.ids, role=self.role, key=self.lake_key, keys=self.keys)


def stores() -> Stores:
    """Where everything is kept.

    Raises:
        BadSetting: a table is not named. So do all of these, with the variable's name.
    """
    return Stores(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
    )


def lake_root() -> str:
    """Below which location new tables go."""
    return env.text("TURNSTILE_LAKE_ROOT")


def vending() -> Vending:
    """Keys for clients. Static ones are for S3-compatible stores without STS."""
    id, keys = env.text("TURNSTILE_S3_ACCESS_KEY_ID", ""), None
    if id:
        secret, token = env.text("TURNSTILE_S3_SECRET_ACCESS_KEY"), env.text("TURNSTILE_S3_SESSION_TOKEN", "")
        keys = Keys(id=id, secret=secret, token=token)
    role, lake_key = env.text("TURNSTILE_VENDING_ROLE", ""), env.text("TURNSTILE_LAKE_KEY", "")
    return Vending(role=role, lake_key=lake_key, keys=keys)


def grace() -> Grace:
    """How long garbage stays, and a catalog's past."""
    return Grace(
        staged_ms=_hours("TURNSTILE_STAGED_GRACE_HOURS", 24),
        staging_ms=_hours("TURNSTILE_STAGING_GRACE_HOURS", 24),
        dropped_ms=_hours("TURNSTILE_DROP_GRACE_HOURS", 168),
        history_ms=_hours("TURNSTILE_HISTORY_HOURS", 168, 3),
    )


def spill() -> SpillLimits:
    """When a catalog's index spills, and how large a segment of it becomes.

    The bounds keep a commit and a segment within one row each (``adapters.parts``): a change that brings in many names at
    once embeds up to four times ``TURNSTILE_INDEX_EMBEDDED_KB``. Processes that differ in these sizes read each other's
    trees.
    """
    embedded = env.integer("TURNSTILE_INDEX_EMBEDDED_KB", 8, 1, 64)
    segment = env.integer("TURNSTILE_INDEX_SEGMENT_KB", 128, 4, 320)
    if segment < 2 * embedded:
        raise env.BadSetting(
            f"TURNSTILE_INDEX_SEGMENT_KB must be at least twice TURNSTILE_INDEX_EMBEDDED_KB: {segment} and {embedded} would "
            "cut a segment at every spill"
        )
    return SpillLimits(embedded=embedded * KB, segment=segment * KB)


def limits() -> Limits:
    """The limits of a function that changes catalogs."""
    return Limits(spill=spill(), history_ms=grace().history)


def _hours(name: str, default: int, least: int = 1) -> int:
    return HOUR_MS * env.integer(name, default, least, _YEARS)

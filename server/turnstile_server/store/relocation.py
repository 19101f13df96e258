"""Relocates the tables of a store: ``turnstile relocate``. No server may run in the home, and no
process may have the file open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from turnstile.adapters.sqlite.copies import is_open
from turnstile.catalog.services import build
from turnstile.store.core.errors import TurnstileError, first_of
from turnstile.store.core.limits import Limits
from turnstile.transfer.relocation import Relocator
from turnstile_server.errors import ServerError
from turnstile_server.home import Home, ServerState, take_lock
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

_SHOWN = 10


def settings_of(home: Path, store: str, store_endpoint: str, realm: str) -> ServerSettings:
    """The settings of the store that is named, or of the home's."""
    place = Home.at(home)
    previous = ServerState.read(place)
    if not store and previous is not None:
        store = previous.of_home(place).store
        store_endpoint = store_endpoint or previous.store_endpoint
    return ServerSettings(str(place.path), store=store, store_endpoint=store_endpoint, realm=realm)


def relocate(
    home: Path, old: str, new: str, *, store: str = "", store_endpoint: str = "", realm: str = "default", dry_run: bool
) -> dict[str, Any]:
    """Changes every location in the store below ``old`` to the same path below ``new``. Returns the
    report and whether the change was made. With ``dry_run`` nothing changes, and problems are in
    the report.

    Raises:
        ServerError: a server runs in the home, a process has the file open, or there are problems;
            nothing was changed. Or the store failed, or another process wrote to it: a second call
            of the same relocation continues.
    """
    settings = settings_of(home, store, store_endpoint, realm)
    place = Home.at(home)
    lock = take_lock(place.lock) if place.path.is_dir() else None
    try:
        if place.path.is_dir() and lock is None:
            raise ServerError(
                f"a server is running in {place.path}; nothing was changed",
                remedy=f"stop it with 'turnstile down --home {place.path}', and run the command again",
                kind="AlreadyRunning",
            )
        if settings.store_kind == "sqlite" and is_open(Path(settings.store_place)):
            raise ServerError(
                f"a process has {settings.store_place} open; nothing was changed",
                remedy="stop the server that uses it, and run the command again",
                kind="AlreadyRunning",
            )
        return _relocate(settings, old, new, dry_run=dry_run)
    except TurnstileError as error:
        raise ServerError(error.message, remedy=error.remedy or "", kind=error.type) from error
    finally:
        if lock is not None:
            os.close(lock)


def _relocate(settings: ServerSettings, old: str, new: str, *, dry_run: bool) -> dict[str, Any]:
    opened = open_store(settings, create=False)
    try:
        world = opened.world
        services = build(world, lake_root=settings.lake_root, limits=Limits())
        relocator = Relocator(world, services.reader)
        plan = relocator.plan(old, new)
        if not dry_run:
            if plan.problems:
                raise ServerError(
                    f"nothing was changed: {first_of(plan.problems, _SHOWN)}",
                    remedy="see to each of them, and run the command again; --dry-run shows all",
                    kind="CannotRelocate",
                )
            relocator.apply(plan)
        return {**plan.report(), "store": settings.store, "done": not dry_run}
    finally:
        opened.close()

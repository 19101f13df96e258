"""A worker: the processes of a server that answers no requests. It joins the fleet of a store, and
works for some roles.

    main process    starts the others, restarts one that dies, and logs progress now and then
    background      the member of the fleet; publishes, makes events, sweeps: as far as its roles
                    say
    light work      with the role ``maintain``

It has no port, and holds no lock, so any number of workers can run side by side. The rows of the
fleet hold the whole assignment of work.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from turnstile_server.children import Children, check_variables, children_of, reset_signals_in_children
from turnstile_server.errors import BadSettings, ServerError
from turnstile_server.settings import ServerSettings
from turnstile_server.telemetry import logs, metrics
from turnstile_server.world import open_store

WATCH_S: Final = 0.5
REPORT_S: Final = 60.0
"""The time between log lines about the work since the last line, if there was any."""

PROGRESS: Final = {
    "turnstile_published_versions_total": "published",
    "turnstile_events_sent_total": "events_sent",
    "turnstile_light_work_files_total": "light_work_files",
    "turnstile_fleet_gained_total": "granules_gained",
    "turnstile_publish_failures_total": "publish_failures",
    "turnstile_light_work_failures_total": "light_work_failures",
}
"""Figures that the line has, and their names in it."""

log = logging.getLogger("turnstile.worker")


def work(settings: ServerSettings, *, ready: Callable[[], None] = lambda: None) -> None:
    """Runs a worker until SIGTERM or SIGINT; then it hands over its granules, and leaves the fleet.

    Args:
        settings: ``roles`` are the roles that it works for. It always shares work, and answers no
            requests.
        ready: called when its processes are being started.

    Raises:
        BadSettings: there is no such store, it does not answer, or a variable is wrong.
    """
    settings = replace(settings, fleet=True, fleet_host="", workers=0)
    check_variables(answers=False)
    _require_store(settings)
    settings = replace(settings, runtime=tempfile.mkdtemp(prefix="tsw-"))
    stop = threading.Event()
    try:
        os.environ |= settings.to_environment()
        logs.configure("worker")
        metrics.start(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        reset_signals_in_children()
        children = Children(children_of(settings))
        children.prepare()
        children.start()
        ready()
        _watch(children, stop)
        children.stop()
    finally:
        shutil.rmtree(settings.runtime, ignore_errors=True)


def _watch(children: Children, stop: threading.Event) -> None:
    """Keeps the processes alive, and reports, until ``stop`` is set."""
    importlib.import_module("prometheus_client")
    before = dict[str, int]()
    due_s = time.monotonic() + REPORT_S
    while not stop.wait(WATCH_S):
        children.mend()
        if time.monotonic() >= due_s:
            now = figures(metrics.exposition().decode())
            due_s = time.monotonic() + REPORT_S
            if grown := {
                name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)
            }:
                log.info("progress", extra=grown)
            before = now


def figures(exposition: str) -> dict[str, int]:
    """Returns the values of ``PROGRESS`` from Prometheus' text format, each summed over all
    labels."""
    sums = dict[str, int]()
    for line in exposition.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in PROGRESS:
            sums[PROGRESS[name]] = sums.get(PROGRESS[name], 0) + int(float(line.rpartition(" ")[2]))
    return sums


def _require_store(settings: ServerSettings) -> None:
    """Raises BadSettings unless the store exists: a worker creates none, because no server would
    write to it."""
    if settings.store_kind == "sqlite":
        if not Path(settings.store_place).is_file():
            raise BadSettings(
                f"there is no store at {settings.store_place}", "start a server on it first, or mend --store"
            )
        return
    try:
        store = open_store(settings)
        store.world.refs.read(store.world.space.fleet())
    except Exception as error:  # whatever the store's client raises
        raise BadSettings(
            f"the store {settings.store} does not answer: {error}",
            "mend --store, --store-endpoint, the region or the credentials",
        ) from error


def main() -> None:
    """Runs a worker with its settings in the environment; a failure to start is one line."""
    try:
        work(ServerSettings.from_environment())
    except ServerError as error:
        raise SystemExit(f"turnstile-worker: {error.message}: {error.remedy}") from error


if __name__ == "__main__":
    main()

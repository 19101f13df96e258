"""The processes of a main process beside the answering ones: it starts them, restarts them,
and ends them."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from typing import Any, Final

from turnstile.fleet.core.roles import MAINTAIN
from turnstile.store.core.errors import StoreUnavailable
from turnstile_server.errors import BadSettings
from turnstile_server.settings import ServerSettings

STOP_S: Final = 15.0
SHORTEST_S: Final = 1.0
PARENT_S: Final = 0.1

BACKGROUND: Final = {"background": "turnstile_server.background"}
"""Processes, and the module whose ``main`` each runs. Each server and worker has this one."""

LIGHT_WORK: Final = {"light-work": "turnstile_server.light_work"}
"""The process for the role ``maintain``."""

OWNER: Final = {"owner": "turnstile_server.fleet.owner"}
"""Of a member of a fleet that others can ask."""

log = logging.getLogger("turnstile.supervisor")


def children_of(settings: ServerSettings) -> Mapping[str, str]:
    """Returns the processes beside the answering ones, and their modules."""
    owner = OWNER if settings.advertised_host and settings.workers else {}
    maintains = MAINTAIN in settings.roles and not settings.is_closed
    return {**owner, **BACKGROUND, **(LIGHT_WORK if maintains else {})}


class Children:
    """The processes of some modules, by their names."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._processes = dict[str, BaseProcess]()
        self._started_s = dict[str, float]()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values() if process.pid]

    def prepare(self) -> None:
        """Imports the modules, so that no start of a process does."""
        for module in self._modules.values():
            importlib.import_module(module)

    def start(self) -> None:
        for name in self._modules:
            self._start(name)

    def mend(self) -> None:
        """Restarts the processes that have ended, each at the earliest ``SHORTEST_S`` after its
        last start, because one may be unable to start."""
        for name, process in self._processes.items():
            if not process.is_alive() and time.monotonic() - self._started_s[name] >= SHORTEST_S:
                log.error("the process of %s ended with %s and is started anew", name, process.exitcode)
                self._start(name)

    def _start(self, name: str) -> None:
        module = importlib.import_module(self._modules[name])
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        process: BaseProcess = context.Process(target=_run, args=(module.main,), name=f"turnstile-{name}")
        process.start()
        self._processes[name] = process
        self._started_s[name] = time.monotonic()

    def stop(self) -> None:
        """Ends the processes in order; kills each that takes longer than ``STOP_S``."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()


def _run(main: Callable[[], None]) -> None:
    """Runs a process; one that finds a store that cannot be used says so in a line, and is started
    anew."""
    try:
        main()
    except StoreUnavailable as error:
        log.critical("%s", error.message)
        sys.exit(1)


def check_variables(*, answers: bool = True) -> None:
    """Reads the variables that the processes will read, with ``answers`` also the variables of
    processes that answer requests. Raises BadSettings with the name of a wrong one."""
    from turnstile.api import console, settings
    from turnstile.api.auth import settings as auth
    from turnstile.api.http.env import BadSetting

    try:
        if answers:
            console.read_settings(required=auth.read() is not None)
        settings.limits()
        settings.vending()
        settings.event_targets()
        settings.follow_ups()
    except BadSetting as error:
        raise BadSettings(str(error), "mend the variable, or remove it") from error


def reset_signals_in_children() -> None:
    """Lets each process that is forked from now on end at a SIGTERM until it has a handler of its
    own, and ignore SIGINT. Without this a child runs the handlers of the main process, which do
    nothing there: a stop that comes before the child's handler would be lost. Call once, in a main
    process, before it starts others."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def reset() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signals),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signals),
        after_in_child=reset,
    )


def end_with_parent() -> None:
    """Ends this process as soon as its parent has ended, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_S)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()

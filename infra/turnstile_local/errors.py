"""Errors of the embedded stack. Each says the cause, the place, and the remedy."""

from __future__ import annotations

from turnstile_server.errors import ServerError


class StackError(ServerError):
    """The stack could not be started, stopped or reached. ``remedy`` is the advice for the user;
    ``kind`` is for programs."""

    def __init__(self, message: str, *, remedy: str = "", kind: str = "StackFailed") -> None:
        super().__init__(message, remedy=remedy, kind=kind)


class PortTaken(StackError):
    """Another program listens on the port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"port {port} of {host} is taken by another program",
            remedy="choose another one with --port, or --port 0 for any free one",
            kind="PortTaken",
        )


class AlreadyRunning(StackError):
    """A stack with other settings runs in this home."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy, kind="AlreadyRunning")


class NotRunning(StackError):
    """No stack runs in this home."""

    def __init__(self, home: object) -> None:
        super().__init__(
            f"no stack is running in {home}",
            remedy="start it with 'turnstile up', or name its folder with --home",
            kind="NotRunning",
        )

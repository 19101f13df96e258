"""Errors of starting, finding and stopping a server. Each says the cause, the place, and the
remedy."""

from __future__ import annotations


class ServerError(Exception):
    """A server could not be started, stopped or reached. ``remedy`` is the advice for the user;
    ``kind`` is for programs."""

    def __init__(self, message: str, *, remedy: str = "", kind: str = "ServerFailed") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.kind = kind

    @classmethod
    def of(cls, kind: str, message: str, remedy: str) -> ServerError:
        """Returns the error that another process told by these three."""
        error_class = next((error for error in cls.__subclasses__() if error.__name__ == kind), cls)
        error = error_class.__new__(error_class)
        ServerError.__init__(error, message, remedy=remedy, kind=kind)
        return error


class PortTaken(ServerError):
    """Another program listens on the port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"port {port} of {host} is taken by another program",
            remedy="choose another one with --port, or --port 0 for any free one",
            kind="PortTaken",
        )


class AlreadyRunning(ServerError):
    """A server runs in this home with other settings, or another user started it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy, kind="AlreadyRunning")


class NotRunning(ServerError):
    """No server runs in this home."""

    def __init__(self, home: object) -> None:
        super().__init__(
            f"no server is running in {home}",
            remedy="start it with 'turnstile up', or name its folder with --home",
            kind="NotRunning",
        )


class BadSettings(ServerError):
    """The server would be unsafe, or could not work, with these settings."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy, kind="BadSettings")

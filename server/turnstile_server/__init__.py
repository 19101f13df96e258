"""Turnstile on one machine, or in containers: the HTTP apps of the functions behind a WSGI server, and what runs beside them.

    ``settings``    what a server is started with
    ``home``        what lies where in a home folder, and its locks
    ``control``     starts a server in the background, finds it and stops it: ``Server``
    ``supervisor``  the main process: one home folder, one server; its processes start, live and end with it
    ``world``       the stores by the one setting that names them, and who is told of what was written
    ``http``        a process that answers requests: guards, health, metrics, and the apps
    ``background``  the process that publishes what changed, sweeps and collects
    ``fleet``       the background's part in the fleet: servers that share a store
    ``streams``     what a DynamoDB stream names
    ``metrics``     figures for Prometheus

Nothing of Turnstile's own is imported by ``control``, so that commands start fast.
"""

from turnstile_server.control import Server
from turnstile_server.errors import AlreadyRunning, NotRunning, PortTaken, ServerError

__all__ = ["AlreadyRunning", "NotRunning", "PortTaken", "Server", "ServerError"]

"""Turnstile on one machine, or in containers: the HTTP apps of the functions behind a WSGI server, and what runs beside them.

    ``settings``    what a server is started with
    ``home``        what lies where in a home folder, and its locks
    ``control``     starts a server in the background, finds it and stops it: ``Server``
    ``supervisor``  the main process: one home folder, one server; its processes start, live and end with it
    ``worker``      the same without processes that answer requests: it works for a fleet
    ``children``    the processes beside those that answer requests
    ``world``       the stores by the one setting that names them, and who is told of what was written
    ``http``        a process that answers requests: guards, health, metrics, and the apps
    ``admission``   which requests are let in, for how long their bodies may take
    ``background``  the process that publishes what changed, makes events, sweeps and collects
    ``light_work``  the process that writes checkpoints
    ``fleet``       the background's part in the fleet: servers and workers that share a store
    ``journal``     events of the fleet
    ``streams``     what a DynamoDB stream names
    ``metrics``     figures for Prometheus

Nothing of Turnstile's own is imported by ``control``, so that commands start fast.
"""

from turnstile_server.control import Server
from turnstile_server.errors import AlreadyRunning, NotRunning, PortTaken, ServerError

__all__ = ["AlreadyRunning", "NotRunning", "PortTaken", "Server", "ServerError"]

"""Turnstile on one machine, or in containers: the HTTP apps of the functions behind a WSGI server,
and its background processes.

    ``settings``    the settings of a server
    ``home``        the files of a home folder, and its locks
    ``control``     starts a server in the background, finds it and stops it: ``Server``
    ``supervisor``  the main process: one home folder, one server; its processes start and end with
                    it
    ``worker``      a main process without processes that answer requests: it works for a fleet
    ``children``    the processes beside those that answer requests
    ``world``       opens the stores that a setting names, and passes on hints of writes
    ``http``        a process that answers requests: guards, health, metrics, and the apps
    ``admission``   limits on requests: how many, and how long their bodies may take
    ``background``  the process that publishes changes, makes events, sweeps and collects
    ``light_work``  the process that writes checkpoints
    ``fleet``       the background's part in the fleet: servers and workers that share a store
    ``journal``     events of the fleet
    ``streams``     keys from a DynamoDB stream
    ``metrics``     figures for Prometheus

``control`` imports nothing else of Turnstile, so that commands start fast.
"""

from turnstile_server.control import Server
from turnstile_server.errors import AlreadyRunning, NotRunning, PortTaken, ServerError

__all__ = ["AlreadyRunning", "NotRunning", "PortTaken", "Server", "ServerError"]

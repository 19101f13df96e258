"""moto's emulation of AWS, a request at a time: ``python moto_server.py PORT``.

``moto.server`` answers each request in a thread of its own, and looks whether a file is there
before it writes it: of several conditional PUTs at once more than one can win, which S3 excludes
and the contract relies on.
"""

from __future__ import annotations

import sys

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def main() -> None:
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=False)


if __name__ == "__main__":
    main()

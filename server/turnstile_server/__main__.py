"""The main process of a server in the background: ``python -m turnstile_server``, with its settings
in the environment."""

from __future__ import annotations

import sys

from turnstile_server.errors import ServerError
from turnstile_server.settings import ServerSettings
from turnstile_server.supervisor import serve


def main() -> None:
    """Runs the server; a failure to start is one line that ``control`` reads."""
    try:
        serve(ServerSettings.from_environment())
    except ServerError as error:
        parts = (" ".join(text.split()) for text in (error.kind, error.message, error.remedy))
        sys.stderr.write("turnstile-server: " + "\t".join(parts) + "\n")
        sys.exit(1)


if __name__ == "__main__":
    main()

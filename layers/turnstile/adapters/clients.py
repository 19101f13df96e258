"""Clients of AWS's services, by botocore; and secrets, which are read with them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

CONNECT_S: Final = 1.0
READ_S: Final = 3.0

_DEFAULT_REGION: Final = "us-east-1"  # emulators serve any; on AWS the function's environment names it

# Time limits grow outwards: these clients < function < gateway < HTTP client. The clients' own
# retries are off, because ``dynamo/calls.py`` and ``s3.py`` retry themselves, count every request,
# and know which faults may have had effect.


def make_client(
    service: str,
    endpoint_url: str | None,
    *,
    attempts: int = 1,
    read_s: float = READ_S,
    keys: Mapping[str, str] | None = None,
    **config: Any,
) -> Any:
    """Returns a client of a service. The time limits are short, and it sends a request ``attempts``
    times at most. ``keys``: other credentials than the environment's."""
    from botocore.config import Config

    config |= {"retries": {"mode": "standard", "total_max_attempts": attempts}}
    limits = Config(connect_timeout=CONNECT_S, read_timeout=read_s, **config)
    with _MAKING:
        session = _session()
        region = session.get_config_variable("region") or _DEFAULT_REGION
        return session.create_client(service, region, endpoint_url=endpoint_url, config=limits, **(keys or {}))


_MAKING: Final = threading.Lock()
"""Clients of one session are made one after the other; used, they are, by any thread."""


def _session() -> Any:
    """Common state of this process's clients: descriptions of services that were read, and
    credentials."""
    return _session_with(*(os.environ.get(name) for name in _KEYS))


_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


@cache
def _session_with(access_key: str | None, secret_key: str | None, token: str | None, profile: str | None) -> Any:
    """Returns a session with the environment's keys, and with the handlers of the called services.

    A session reads its credentials once, so a process with other keys has another session. Without
    the keys it would make a dozen providers, of which ``EnvProvider`` is the first, to find them.
    To register the handlers of all services takes longer than to make a client.
    """
    import botocore.session
    from botocore import handlers

    session = botocore.session.Session(include_builtin_handlers=False)
    events = session.get_component("event_emitter")
    order = {handlers.REGISTER_FIRST: events.register_first, handlers.REGISTER_LAST: events.register_last}
    for name, handler, *when in handlers.BUILTIN_HANDLERS:
        kind, service = [*name.split("."), ""][:2]
        if kind != "docs" and service in _HANDLED:
            register = order[when[0]] if when else events.register
            register(name, handler)
    if access_key and secret_key and not profile and not _UNUSUAL & os.environ.keys():
        session.set_credentials(access_key, secret_key, token)
    return session


def forget_sessions() -> None:
    """Makes later clients read the environment's credentials again."""
    _session_with.cache_clear()


_UNUSUAL: Final = frozenset(("AWS_CREDENTIAL_EXPIRATION", "AWS_SECURITY_TOKEN"))
"""Variables that ``EnvProvider`` reads too."""

_HANDLED: Final = frozenset(
    (
        "",
        "*",
        "dynamodb",
        "dynamodb-streams",
        "emr-serverless",
        "eventbridge",
        "lambda",
        "s3",
        "secrets-manager",
        "ssm",
        "sts",
    )
)
"""Called services, by their names in botocore's events. An event of every service has none, or
``*``."""


def read_secret(arn: str) -> str:
    """The value of a secret of Secrets Manager, or of a parameter of Systems Manager's Parameter
    Store, deciphered. A parameter of the deployment's own account (``TURNSTILE_ACCOUNT``) is read
    by its name, as emulators know it; one of another account by its whole ARN, since its name would
    be that of a parameter here. Raises the errors of botocore.
    """
    parts = arn.split(":")
    if parts[2:3] == ["ssm"]:
        is_own = parts[4:5] == [os.environ.get("TURNSTILE_ACCOUNT", "")]
        name = arn.partition(":parameter")[2] if is_own else arn
        return str(
            make_client("ssm", None, attempts=2).get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
        )
    return str(make_client("secretsmanager", None, attempts=2).get_secret_value(SecretId=arn)["SecretString"])

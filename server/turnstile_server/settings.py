"""The settings of a server. Its processes inherit them by the environment; secrets have variables
of their own.

All other variables that the functions read mean the same here (template.yaml lists them):
authentication, how long garbage stays, keys for clients of a store without STS.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final, Self

from turnstile.fleet.core.owners import Address
from turnstile.fleet.core.roles import ALL
from turnstile_server.errors import BadSettings
from turnstile_server.home import Home

VARIABLE: Final = "TURNSTILE_SERVER"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
DEFAULT_PORT: Final = 8750
TOKEN: Final = "TURNSTILE_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_KEYS: Final = "TURNSTILE_TOKEN_KEYS"  # noqa: S105
AUTHENTICATION: Final = "TURNSTILE_AUTHENTICATION"
ACCEPTS: Final = (TOKEN, "TURNSTILE_TOKENS", "TURNSTILE_OIDC_ISSUER")
"""The settings by which a server accepts tokens."""
_STORES: Final = ("sqlite", "dynamodb")


@dataclass(frozen=True)
class ServerSettings:
    """The settings of one server.

    Attributes:
        home: folder with the lock, the log, and by default the store and the lake.
        lake_root: location for new tables; empty: ``lake`` in the home.
        store: ``sqlite:PATH``, or ``dynamodb:REFS_TABLE,OBJS_TABLE``; empty: a SQLite file in the
            home.
        store_endpoint: the address of an emulator of DynamoDB, or of Alternator; empty: AWS.
        host: address to listen on; any but a loopback address demands authentication.
        hosts: further names by which clients call it.
        realm: the tenant.
        workers: processes that answer requests; 0: none, because it is a worker (``worker``).
        threads: requests that one process works on at once.
        body_s: how long the body of a request may take to arrive; a large one has more time
            (``admission``).
        roles: its background's roles (``turnstile.fleet.core.roles``); other members do the rest.
        fleet: whether it shares its background's work with other servers of the store.
        fleet_beat_ms: the time between heartbeats.
        fleet_host: the name or address by which other members reach it; by default ``host``, if
            that is one.
        fleet_port, fleet_secret: the port of its owner of catalogs, and the secret for connections
            to it (``asking``); new at each start.
        closed: whether it accepts no changes until its home has no ``closed`` file
            (``turnstile_server.closed``).
        runtime: folder of sockets and figures while it runs; the supervisor makes it.
    """

    home: str
    lake_root: str = ""
    store: str = ""
    store_endpoint: str = ""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    hosts: tuple[str, ...] = ()
    realm: str = "default"
    workers: int = 1
    threads: int = 32
    body_s: float = 30.0
    roles: tuple[str, ...] = ALL
    fleet: bool = False
    fleet_beat_ms: int = 1_000
    fleet_host: str = ""
    fleet_port: int = 0
    fleet_secret: str = ""
    closed: bool = False
    runtime: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))
        object.__setattr__(self, "roles", tuple(self.roles))
        object.__setattr__(self, "home", str(Path(self.home).expanduser().absolute()))
        object.__setattr__(self, "lake_root", self.lake_root.rstrip("/") or (Path(self.home) / "lake").as_uri())
        object.__setattr__(self, "store", self.store or f"sqlite:{Path(self.home) / 'turnstile.db'}")
        kind, _, place = self.store.partition(":")
        names = [name for name in place.split(",") if name]
        if kind not in _STORES or len(names) != _STORES.index(kind) + 1:
            raise BadSettings(
                f"{self.store!r} is no store", "write sqlite:/path/to/file, or dynamodb:REFS_TABLE,OBJS_TABLE"
            )
        if not self.fleet and set(self.roles) != set(ALL):
            raise BadSettings(
                "a server that leaves work to others has to share it with them", "add --fleet, or leave --roles out"
            )

    @property
    def store_kind(self) -> str:
        return self.store.partition(":")[0]

    @property
    def store_place(self) -> str:
        """The part after the kind: a path, or the names of two tables."""
        return self.store.partition(":")[2]

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """Where clients of this machine reach it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def fleet_address(self) -> Address | None:
        """Where the fleet's other members ask this server to apply changes of catalogs; None:
        nowhere."""
        host = self.advertised_host
        return Address(host, self.fleet_port, self.fleet_secret) if self.fleet_port and host else None

    @property
    def advertised_host(self) -> str:
        """The name or address by which the fleet's other members reach this server; empty if it is
        not set."""
        if not self.fleet:
            return ""
        is_any = self.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
        return self.fleet_host or ("" if is_any else self.host)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no changes now."""
        return self.closed and Home.at(self.home).closed_marker.exists()

    @property
    def wake_socket(self) -> str:
        """The socket on which processes send hints of commits to the background."""
        return str(Path(self.runtime) / "wake")

    @property
    def heartbeat(self) -> Path:
        """File that the background touches while it is well."""
        return Path(self.runtime) / "heartbeat"

    def ready_file(self, pid: int) -> Path:
        """File that a process leaves when it is ready to answer requests."""
        return Path(self.runtime) / f"ready-{pid}"

    def to_environment(self) -> dict[str, str]:
        """Returns the variable by which processes get the settings."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        """Returns the settings that the starting process handed on."""
        raw = json.loads(os.environ[VARIABLE])
        return cls(**{field.name: raw[field.name] for field in fields(cls) if field.name in raw})


def read_roles(text: str, *, or_none: bool = False) -> tuple[str, ...]:
    """Returns the roles that an option names: ``publish,maintain``, ``all``, or with ``or_none``
    also ``none``. Raises BadSettings."""
    if text == "all":
        return ALL
    if text == "none" and or_none:
        return ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ALL:
            every = f"all{', none' if or_none else ''}, or some of {','.join(ALL)}"
            raise BadSettings(f"{name!r} is no role of background work", f"--roles takes {every}")
    return tuple(role for role in ALL if role in names)


def default_workers() -> int:
    """Returns the default number of processes that answer requests: half of the cores, at most
    four. The other cores are for the background, and for programs beside the server."""
    return max(1, min(4, len(os.sched_getaffinity(0)) // 2 if hasattr(os, "sched_getaffinity") else 1))


def decide_authentication(settings: ServerSettings, environment: Mapping[str, str]) -> str:
    """Returns ``required`` or ``none``.

    Open only on a loopback address, and only where no token or issuer is configured. Raises
    BadSettings for a server that others could reach without a token.
    """
    accepts = any(environment.get(name) for name in ACCEPTS)
    wanted = environment.get(AUTHENTICATION) or ("required" if accepts else "none")
    if wanted == "none" and not settings.is_loopback:
        raise BadSettings(
            f"every caller that reaches {settings.host} could do everything: no token and no issuer is configured",
            "give --token (or TURNSTILE_TOKEN, TURNSTILE_TOKENS, TURNSTILE_OIDC_ISSUER), or listen on 127.0.0.1",
        )
    return wanted

"""The console's files over HTTP: a page, its hashed assets, and the settings that the page needs
before the login.

    /ui/assets/<name with a hash>    the file, with unlimited caching
    /ui/settings.json                the ways to log in here
    /ui, /ui/<anything else>         the page, whose script shows the screen that the path names

A request looks a file up by its name among the files that were read at the start, so no path leads
out of the folder. The files are public: they hold no data. The page reads all data from the API,
with the token of the user that has logged in (I12).
"""

from __future__ import annotations

import functools
import gzip
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from turnstile.api.http import env

PREFIX: Final = "/ui"
_NONCE: Final = b"@NONCE@"
_YEAR_S: Final = 31_536_000
_TEXT: Final = "text/plain; charset=utf-8"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_COMPRESSED: Final = frozenset({".css", ".js", ".svg"})

_NOT_BUILT: Final = (
    "The console is not part of this installation: its files were not built.\n"
    "In a checkout of Turnstile, with Node.js 20 or later: make console. Then start the server again.\n"
    "The API and the command line work without it.\n"
)


class ConsoleSettings(msgspec.Struct, frozen=True):
    """The settings of the page. ``issuer`` and ``client_id`` are empty if users do not log in by
    OIDC; ``audience``: the audience of the token that the issuer is asked for; ``origins``: the
    issuer's origins that the page may send requests to.
    """

    authentication: str = "none"
    issuer: str = ""
    client_id: str = ""
    scope: str = ""
    audience: str = ""
    origins: tuple[str, ...] = ()


class SiteResponse(msgspec.Struct, frozen=True):
    """Status, headers with lower-case names, and the body, which is not to be sent to HEAD."""

    status: int
    headers: dict[str, str]
    body: bytes


class _File(msgspec.Struct, frozen=True):
    content: bytes
    compressed: bytes | None
    media: str


def read_settings(*, required: bool) -> ConsoleSettings:
    """Returns the settings of the page, from the environment; ``required``: the deployment demands
    tokens.

    Raises BadSetting for a client id without an issuer and its audience, and for an invalid origin.
    """
    client_id = env.text("TURNSTILE_CONSOLE_CLIENT_ID", "")
    authentication = "required" if required else "none"
    if not client_id:
        return ConsoleSettings(authentication)
    issuer = env.text("TURNSTILE_OIDC_ISSUER", "")
    audience = env.text("TURNSTILE_OIDC_AUDIENCE", "")
    if not required or not issuer or not audience:
        raise env.BadSetting("TURNSTILE_CONSOLE_CLIENT_ID is set, and TURNSTILE_OIDC_ISSUER or its audience is not")
    further = [url.strip() for url in env.text("TURNSTILE_CONSOLE_ORIGINS", "").split(",") if url.strip()]
    return ConsoleSettings(
        authentication=authentication,
        issuer=issuer,
        client_id=client_id,
        scope=env.text("TURNSTILE_CONSOLE_SCOPE", "openid"),
        audience=audience.partition(",")[0].strip(),
        origins=tuple(dict.fromkeys(_origin(url) for url in (issuer, *further))),
    )


class Site:
    """The files of a folder that ``make console`` made.

    Args:
        folder: with ``index.html`` and ``assets``; may be missing.
        settings: the settings of the page.
    """

    def __init__(self, folder: Path, settings: ConsoleSettings) -> None:
        self._folder = folder
        self._page = _read(folder / "index.html")
        self._policy = _policy(settings.origins)
        members = msgspec.structs.asdict(settings)
        self._told = msgspec.json.encode({name: value for name, value in members.items() if name != "origins"})

    @functools.cached_property
    def _files(self) -> dict[str, _File]:
        """Read when the first is asked for, so that a start costs nothing."""
        return _files(self._folder)

    @staticmethod
    def serves(path: str) -> bool:
        """Returns whether the path is the site's."""
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> SiteResponse:
        """Returns the response to any request below ``PREFIX``; ``headers`` have lower-case
        names."""
        if method not in ("GET", "HEAD"):
            return self._text(405, "These are files: use GET.\n", allow="GET, HEAD")
        if not self._page:
            return self._text(404, _NOT_BUILT)
        name = path.removeprefix(PREFIX).lstrip("/")
        if name == "settings.json":
            return self._response(200, self._told, _TYPES[".json"], "no-store")
        file = self._files.get(name)
        if file is not None:
            return self._file(file, headers)
        if name.startswith("assets/"):
            return self._text(404, "There is no such file: the console was built anew. Load the page again.\n")
        nonce = secrets.token_urlsafe(16)  # for the styles that the components of the page write into it
        page = self._page.replace(_NONCE, nonce.encode())
        return self._response(200, page, _TYPES[".html"], "no-store", nonce=nonce)

    def _file(self, file: _File, headers: Mapping[str, str]) -> SiteResponse:
        kept = f"public, max-age={_YEAR_S}, immutable"
        if file.compressed is None:
            return self._response(200, file.content, file.media, kept)
        accepts = _accepts_gzip(headers.get("accept-encoding", ""))
        more = {"vary": "Accept-Encoding", **({"content-encoding": "gzip"} if accepts else {})}
        return self._response(200, file.compressed if accepts else file.content, file.media, kept, **more)

    def _text(self, status: int, text: str, **more: str) -> SiteResponse:
        return self._response(status, text.encode(), _TEXT, "no-store", **more)

    def _response(
        self, status: int, body: bytes, media: str, kept: str, *, nonce: str = "", **more: str
    ) -> SiteResponse:
        headers = {
            "content-type": media,
            "cache-control": kept,
            "content-security-policy": self._policy.replace("@NONCE@", f" 'nonce-{nonce}'" if nonce else ""),
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            **more,
        }
        return SiteResponse(status, headers, body)


def to_gateway(response: SiteResponse, *, head: bool) -> dict[str, Any]:
    """Returns the response in an HTTP API's payload 2.0. Bodies are base64, since some are
    compressed."""
    from base64 import b64encode

    return {
        "statusCode": response.status,
        "headers": response.headers,
        "body": "" if head else b64encode(response.body).decode(),
        "isBase64Encoded": not head,
    }


def _policy(origins: tuple[str, ...]) -> str:
    """Scripts are files of this origin; requests go to this origin and to the issuer's; the page
    cannot be framed."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'@NONCE@",
            "img-src 'self' data:",
            "font-src 'self'",
            " ".join(("connect-src 'self'", *origins)),
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _origin(url: str) -> str:
    """The origin of a URL; raises BadSetting for one that is none, since it goes into a header."""
    parts = urlsplit(url)
    plain = all(character.isalnum() or character in ".-:[]" for character in parts.netloc)
    if parts.scheme not in ("https", "http") or not parts.netloc or not plain:
        raise env.BadSetting(f"TURNSTILE_CONSOLE_ORIGINS and the issuer must be http(s) URLs, not {url[:200]!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _accepts_gzip(accepted: str) -> bool:
    """Whether ``Accept-Encoding`` names gzip without forbidding it (RFC 9110, 12.5.3)."""
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "").strip() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _files(folder: Path) -> dict[str, _File]:
    """The files with unlimited caching, by their path below the folder: files with a hash in their
    name."""
    return {
        f"assets/{path.name}": _open(path)
        for path in sorted((folder / "assets").glob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix in _TYPES
    }


def _open(path: Path) -> _File:
    content = path.read_bytes()
    compressed = gzip.compress(content, 6, mtime=0) if path.suffix in _COMPRESSED else None
    return _File(content, compressed, _TYPES[path.suffix])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""

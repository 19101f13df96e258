"""The console's files below ``/ui``: access and headers, and no path leads out of the folder
(I12)."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from turnstile.api.auth import settings as auth_settings
from turnstile.api.console import ConsoleSettings, Site, SiteResponse, read_settings, to_gateway
from turnstile.api.http.env import BadSetting

PAGE = '<meta name="csp-nonce" content="@NONCE@"><script src="/ui/assets/index-abc.js"></script>'
SCRIPT = b"console.log('a script');" * 100
OIDC = {"TURNSTILE_OIDC_ISSUER": "https://id.example.com/realm", "TURNSTILE_OIDC_AUDIENCE": "turnstile,other"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "site"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "sources.sha256").write_text("0")
    (folder / "assets" / "index-abc.js").write_bytes(SCRIPT)
    (folder / "assets" / "style-abc.css").write_bytes(b"a { color: red }")
    (folder / "assets" / "notes.exe").write_bytes(b"not of the site")
    (folder / "assets" / "secret.js").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_bytes(b"a secret")
    return Site(
        folder,
        ConsoleSettings("required", "https://id.example.com/realm", "console", origins=("https://id.example.com",)),
    )


def get(site: Site, path: str, method: str = "GET", **headers: str) -> SiteResponse:
    return site.answer(method, path, headers)


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/browse", "/ui/table/main.sales.orders", "/ui/index.html"])
def test_every_screen_is_the_page_with_a_nonce_of_its_own(site: Site, path: str) -> None:
    responses = [get(site, path), get(site, path)]
    nonces = [re.findall(r'content="([\w-]+)"', response.body.decode())[0] for response in responses]
    assert len(set(nonces)) == 2
    for response, nonce in zip(responses, nonces, strict=True):
        assert (response.status, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert response.headers["cache-control"] == "no-store"
        assert f"style-src 'self' 'nonce-{nonce}';" in response.headers["content-security-policy"]


def test_the_policy_lets_nothing_in_but_the_sites_own_and_the_issuer(site: Site) -> None:
    policy = get(site, "/ui/assets/index-abc.js").headers["content-security-policy"]
    assert policy.split("; ") == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self' https://id.example.com",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]


def test_assets_are_kept_for_ever_and_compressed_for_clients_that_take_it(site: Site) -> None:
    plain = get(site, "/ui/assets/index-abc.js")
    assert plain.body == SCRIPT
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "content-encoding" not in plain.headers
    small = get(site, "/ui/assets/index-abc.js", **{"accept-encoding": "br;q=1.0, gzip;q=0.8"})
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(small.body) == SCRIPT
    refused = get(site, "/ui/assets/index-abc.js", **{"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers


@pytest.mark.parametrize(
    "path",
    [
        "/ui/assets/gone.js",
        "/ui/assets/../../secret",
        "/ui/assets/%2e%2e/secret",
        "/ui/assets//index-abc.js",
        "/ui/assets/secret.js",
        "/ui/assets/notes.exe",
        "/ui/assets/",
        "/ui/assets/index-abc.js/",
    ],
)
def test_what_is_no_file_of_the_site_is_not_found(site: Site, path: str) -> None:
    response = get(site, path)
    assert (response.status, response.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert b"secret" not in response.body
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/ui/../secret", "/ui/sources.sha256", "/ui//etc/passwd"])
def test_no_path_leads_out_of_the_folder(site: Site, path: str) -> None:
    assert b"csp-nonce" in get(site, path).body  # a screen that does not exist, as the page then says


def test_other_methods_and_other_paths(site: Site) -> None:
    refused = get(site, "/ui/", "POST")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    assert [Site.serves(path) for path in ("/ui", "/ui/x", "/uix", "/v1", "/")] == [True, True, False, False, False]


def test_a_console_that_was_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    missing = Site(tmp_path / "nowhere", ConsoleSettings())
    for path in ("/ui", "/ui/assets/index-abc.js", "/ui/settings.json"):
        response = get(missing, path)
        assert response.status == 404
        assert b"make console" in response.body


def test_the_page_gets_its_settings(site: Site) -> None:
    response = get(site, "/ui/settings.json")
    assert response.headers["cache-control"] == "no-store"
    assert json.loads(response.body) == {
        "authentication": "required",
        "issuer": "https://id.example.com/realm",
        "client_id": "console",
        "scope": "",
        "audience": "",
    }


def settings(monkeypatch: pytest.MonkeyPatch, **variables: str) -> ConsoleSettings:
    for name in ("TURNSTILE_AUTHENTICATION", "TURNSTILE_TOKEN", "TURNSTILE_TOKENS", *OIDC):
        monkeypatch.delenv(name, raising=False)
    for name in ("CLIENT_ID", "SCOPE", "ORIGINS"):
        monkeypatch.delenv(f"TURNSTILE_CONSOLE_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return read_settings(required=auth_settings.read() is not None)


def test_settings_of_a_stack_that_is_open_has_tokens_or_an_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch, TURNSTILE_AUTHENTICATION="none") == ConsoleSettings("none")
    assert settings(monkeypatch, TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKEN="t") == ConsoleSettings(
        "required"
    )
    assert settings(monkeypatch, **OIDC) == ConsoleSettings("required")
    more = {
        "TURNSTILE_CONSOLE_CLIENT_ID": "console",
        "TURNSTILE_CONSOLE_ORIGINS": "https://login.example.com/x, https://id.example.com",
    }
    assert settings(monkeypatch, **OIDC, **more) == ConsoleSettings(
        authentication="required",
        issuer="https://id.example.com/realm",
        client_id="console",
        scope="openid",
        audience="turnstile",
        origins=("https://id.example.com", "https://login.example.com"),
    )


@pytest.mark.parametrize(
    "origin", ["id.example.com", "ftp://id.example.com", "https://", "https://a b", "https://x;script-src *"]
)
def test_an_origin_that_is_none_stops_the_start(monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    with pytest.raises(BadSetting, match="TURNSTILE_CONSOLE_ORIGINS"):
        settings(monkeypatch, **OIDC, TURNSTILE_CONSOLE_CLIENT_ID="console", TURNSTILE_CONSOLE_ORIGINS=origin)


def test_a_client_without_an_issuer_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSetting, match="TURNSTILE_CONSOLE_CLIENT_ID"):
        settings(monkeypatch, TURNSTILE_TOKEN="t", TURNSTILE_CONSOLE_CLIENT_ID="console")


def test_the_gateways_form(site: Site) -> None:
    import base64

    whole = to_gateway(get(site, "/ui/assets/index-abc.js", **{"accept-encoding": "gzip"}), head=False)
    assert (whole["statusCode"], whole["isBase64Encoded"]) == (200, True)
    assert gzip.decompress(base64.b64decode(whole["body"])) == SCRIPT
    assert to_gateway(get(site, "/ui"), head=True)["body"] == ""

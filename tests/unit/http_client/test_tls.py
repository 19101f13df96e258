"""A client checks certificates wherever there are some, and reads none where there are none."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from turnstile_cli import api
from turnstile_http import http

CONTEXTS: list[Callable[[str], ssl.SSLContext]] = [
    http.tls_context,
    lambda url: api.tls_context(url, trust_env=True),
]


@pytest.mark.parametrize("context", CONTEXTS, ids=["clients", "command line"])
@pytest.mark.parametrize(("url", "trusts"), [("https://h", True), ("HTTPS://h:1/x", True), ("http://h", False)])
def test_authorities_are_read_for_https_alone_and_each_context_checks(
    context: Callable[[str], ssl.SSLContext], url: str, trusts: bool
) -> None:
    made = context(url)
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (made.cert_store_stats()["x509_ca"] > 0) == trusts

"""What docs/security.md says to write arrives as it was meant: through the shell, ``sam deploy``
and the parameters' patterns."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest

from tests.support.repository import ROOT, snippets
from turnstile.api.auth.settings import read as auth_settings
from turnstile_local.deployment import read_template

PARAMETERS = read_template(ROOT / "template.yaml")["Parameters"]

_GIVEN = re.compile(
    r"""[ ](?P<name>[A-Za-z0-9"']+)=
        (?P<value> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | (?:\\.|[^ "\\])+ )""",
    re.VERBOSE,
)
"""How SAM's command line takes one argument of ``--parameter-overrides`` apart (1.1xx): a value is
quoted, or ends at a space or a double quote, and what cannot be read is left out without a word."""


def as_sam_reads(*arguments: str) -> dict[str, str]:
    """The parameters that the stack gets."""
    found: dict[str, str] = {}
    for argument in arguments:
        for given in _GIVEN.finditer(" " + argument.strip()):
            value = given["value"]
            if value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            found[given["name"]] = value.replace("\\ ", " ").replace('\\"', '"').replace("\\'", "'")
    return found


def accepted(name: str, value: str) -> bool:
    return re.fullmatch(PARAMETERS[name]["AllowedPattern"], value) is not None


def overrides(page: str, says: str) -> list[dict[str, str]]:
    """What each ``sam deploy`` of a page's block passes on, as a shell runs it."""
    (code,) = [one.code for one in snippets() if one.page == page and says in one.code]
    script = "sam() { printf '%s\\n' \"$@\"; echo --end; }; aws() { :; }\n" + code
    told = subprocess.run(["bash", "-euc", script], text=True, capture_output=True, check=True).stdout
    runs = told.split("--end\n")[:-1]
    return [as_sam_reads(*run.splitlines()[run.splitlines().index("--parameter-overrides") + 1 :]) for run in runs]


def test_i12_static_tokens_written_as_documented_let_their_principal_in(monkeypatch: pytest.MonkeyPatch) -> None:
    (given,) = overrides("docs/security.md", "StaticTokens='$json'")
    assert accepted("StaticTokens", given["StaticTokens"])
    monkeypatch.setenv("TURNSTILE_TOKENS", given["StaticTokens"])
    found = auth_settings()
    assert found is not None
    ((_, principal),) = found.tokens.items()
    assert (principal.name, principal.roles, principal.admin) == ("ci", {"writers"}, False)
    assert given["AdminNames"].split(",") == ["ada lovelace", "grace"]


@pytest.mark.parametrize("json_", [json.dumps, lambda tokens: json.dumps(tokens, indent=1)])
def test_i12_static_tokens_without_the_inner_quotes_are_refused_and_with_them_kept(json_: Callable[..., str]) -> None:
    tokens = json_({"a" * 64: {"name": "ci", "roles": ["writers"]}, "b" * 64: {"name": "ops", "admin": True}})
    assert accepted("StaticTokens", tokens)
    assert as_sam_reads(f"StaticTokens='{tokens}'") == {"StaticTokens": tokens}
    eaten = as_sam_reads(f"StaticTokens={tokens}")["StaticTokens"]
    assert eaten != tokens
    assert not accepted("StaticTokens", eaten)


@pytest.mark.parametrize("value", ["", "{{resolve:secretsmanager:turnstile:SecretString:tokens}}"])
def test_no_static_tokens_and_a_reference_to_them_are_accepted(value: str) -> None:
    assert accepted("StaticTokens", value)
    assert as_sam_reads(f"StaticTokens={value}").get("StaticTokens", "") == value


@pytest.mark.parametrize("value", ["{}", '{"ci": {"name": "ci"}}', "{" + "a" * 64 + ": {name: ci}}", "token"])
def test_what_are_no_static_tokens_is_refused(value: str) -> None:
    assert not accepted("StaticTokens", value)

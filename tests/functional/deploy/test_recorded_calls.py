"""I12: each function calls on all its paths exactly the actions of AWS that its role allows.

The functions run in this process on an emulator's tables and buckets. botocore's calls are recorded
and judged by the roles of template.yaml, with all parameters given, as IAM judges them; refused
calls fail as on AWS. The calls of Lambda itself in a function's name (logs, streams, queues of
failures, traces) follow from the template.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.roles.policies import Grant, refused, unused
from tests.support.roles.recorded import FUNCTIONS, Recorded, recorded_calls
from tests.support.store.servers import Servers

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("secretsmanager:GetSecretValue", "parameter/turnstile/secret"): "a secret is of the one service or the other",
    ("ssm:GetParameter", "secret:lake-abcdef"): "a secret is of the one service or the other",
}
"""Grants that no recorded call needs, by action and the end of the resource, with the reason."""


@pytest.fixture(scope="module")
def recorded(servers: Servers) -> Iterator[Recorded]:
    with recorded_calls(servers) as found:
        yield found


def test_i12_every_path_does_what_it_is_for(recorded: Recorded) -> None:
    assert not recorded.paths.failed, "\n".join(f"{name}: {why}" for name, why in recorded.paths.failed.items())
    assert len(recorded.paths.ran) > 200


@pytest.mark.parametrize("function", FUNCTIONS)
def test_i12_no_call_of_a_function_is_refused(recorded: Recorded, function: str) -> None:
    assert refused(recorded.roles, recorded.calls[function]) == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_i12_a_role_grants_nothing_that_no_path_uses(recorded: Recorded, function: str) -> None:
    found = unused(recorded.roles[function], recorded.calls[function])
    assert [grant for grant in found if not excepted(grant)] == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_i12_a_statement_that_is_missing_from_a_role_is_noticed(recorded: Recorded, function: str) -> None:
    role = recorded.roles[function]
    unnoticed = [
        where
        for where in role.allowing()
        if not refused({function: role.without(where)}, recorded.calls[function])
        and not all(excepted(grant) for grant in role.grants() if grant.where == where)
    ]
    assert unnoticed == []


def test_the_exceptions_are_still_needed(recorded: Recorded) -> None:
    found = {
        key
        for function in FUNCTIONS
        for grant in unused(recorded.roles[function], recorded.calls[function])
        if (key := excepted(grant))
    }
    assert found == EXCEPTIONS.keys()


def excepted(grant: Grant) -> tuple[str, str] | None:
    """The exception that a grant is, if it is one."""
    return next((key for key in EXCEPTIONS if grant.action == key[0] and grant.resource.endswith(key[1])), None)

"""Earlier states of the code open a store of today: a release can be taken back
(docs/operations.md, Upgrades)."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.earlier.answers import identities_in, versions_in
from tests.support.earlier.archive import empty_bucket, stored
from tests.support.earlier.exchanges import Requests, requests
from tests.support.earlier.servers import EarlierServer, fill
from tests.support.earlier.story import ADMIN
from tests.support.repository import ROOT
from tests.support.stack import until
from tests.support.store.backends import MINISTACK
from tests.support.store.servers import Servers

COMMITS = [path.name.split(".")[0].rpartition("-")[2] for path in stored()]
FORGETS_LATER_IDENTITIES = ("4ab19e38", "82ca82be")
"""States that look for an identity under one id only, which the code of today writes no more
(``identity_objs``)."""


def checkout(commit: str, folder: Path) -> Path:
    """The files of ``commit`` in ``folder``; skips the test where the clone does not have that
    commit."""
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this clone has no commit {commit}: fetch the whole history")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(
    params=[pytest.param(commit, marks=[] if commit == COMMITS[-1] else pytest.mark.slow) for commit in COMMITS]
)
def commit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def asked(commit: str, servers: Servers, tmp_path: Path) -> Iterator[Requests]:
    """A store that today's code filled, opened by the code of ``commit``; ``sent`` has what was
    asked."""
    s3_url = servers.get(MINISTACK).url
    assert s3_url is not None
    empty_bucket(s3_url)
    old = checkout(commit, tmp_path / "code")
    store = fill(ROOT, "today", tmp_path / "home", s3_url)
    server = EarlierServer(old, tmp_path / "home", s3_url)
    try:
        with requests(server.url, ADMIN) as sender:
            sender.sent.extend(store.exchanges)
            yield sender
    finally:
        server.kill()


def test_i3_i11_i22_earlier_code_publishes_and_answers_what_the_code_of_today_accepted(
    asked: Requests, commit: str
) -> None:
    commits = [one for one in asked.sent if one.repeat == "commit"]
    tables = {table_id for one in commits for table_id, _, _ in identities_in(one)}

    def published() -> bool:
        heads = [asked.send("GET", f"/v1/tables/{table_id}/head") for table_id in tables]
        return all(head["floor"] == head["latest"] for head in heads)

    until(published, "all commits are published")
    for one in commits:
        answer = asked.again(one)
        if commit not in FORGETS_LATER_IDENTITIES:
            assert versions_in(answer.json()) == versions_in(one.answer), one.title

"""Promotions of the branch ``dev`` by a client, in tests of expectations."""

from __future__ import annotations

import pytest

from turnstile_client import ApiError, Lake


def promote(lake: Lake) -> list[str]:
    """Promotes the branch. Returns the reasons why it is not promoted, which its changes show
    before."""
    shown = lake.branches.changes("dev").conflicts
    if shown:
        with pytest.raises(ApiError) as refusal:
            lake.branches.promote("dev")
        assert (refusal.value.type, refusal.value.body["conflicts"]) == ("BranchConflict", shown)
    else:
        lake.branches.promote("dev")
    return shown


def drop_all(lake: Lake) -> None:
    """Drops the branches that are left."""
    for branch in lake.branches:
        lake.branches.drop(branch.name)

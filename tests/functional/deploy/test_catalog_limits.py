"""Functions that change catalogs agree on a catalog's limits: each reads them from the same
variables."""

from __future__ import annotations

import pytest

from tests.support.functions import Function
from turnstile.gc.core import HOUR_MS
from turnstile.store.core.limits import SpillLimits

DEPLOYED = {
    "AWS_LAMBDA_FUNCTION_NAME": "function",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "TURNSTILE_REFS_TABLE": "refs",
    "TURNSTILE_OBJS_TABLE": "objs",
    "TURNSTILE_LAKE_ROOT": "s3://bucket/lake",
}


@pytest.mark.parametrize("name", ["catalog", "iceberg", "commit"])
def test_sizes_of_indexes_and_the_kept_history_are_those_of_the_deployment(name: str) -> None:
    sizes = {"TURNSTILE_INDEX_EMBEDDED_KB": "2", "TURNSTILE_INDEX_SEGMENT_KB": "9"}
    services = Function(name, **DEPLOYED, **sizes, TURNSTILE_HISTORY_HOURS="5").services  # opened at the cold start
    assert (
        services.open_reader.store.limits == services.limits.spill == SpillLimits(embedded=2 * 1024, segment=9 * 1024)
    )
    assert services.limits.history_ms == 5 * HOUR_MS


@pytest.mark.parametrize("name", ["catalog", "iceberg", "commit"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [("TURNSTILE_INDEX_EMBEDDED_KB", "65"), ("TURNSTILE_INDEX_SEGMENT_KB", "8"), ("TURNSTILE_HISTORY_HOURS", "2")],
)
def test_a_function_does_not_start_with_limits_out_of_bounds(name: str, variable: str, value: str) -> None:
    with pytest.raises(ValueError, match=variable):
        Function(name, **DEPLOYED, **{variable: value})

"""Branches (docs/branches.md): comparisons, updates and promotions, and the logs of tables of
branches. It reads and writes Parquet, so it carries pyarrow."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api import apps
from turnstile.api.branch_calls import BranchCalls
from turnstile.api.http.env import in_lambda

app = apps.branches()
handle = BranchCalls(app).handle

if in_lambda():
    app.start()  # a bad setting shows at the cold start

turnstile.api.starts.end()

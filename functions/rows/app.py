"""Rows of a queue or a stream (docs/rows.md). It writes data files, so it carries pyarrow."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api.http.env import in_lambda
from turnstile.api.row_batches import RowBatchHandler

handler = RowBatchHandler()
on_batch = handler.on_batch

if in_lambda():
    _ = handler.services  # a bad setting shows at the cold start

turnstile.api.starts.end()

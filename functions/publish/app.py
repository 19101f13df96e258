"""The function that publishes the changes in the stream of refs."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api.http.env import in_lambda
from turnstile.api.stream import StreamHandler

handler = StreamHandler()
on_refs = handler.on_refs

if in_lambda():
    _ = handler.services  # a bad setting shows at the cold start

turnstile.api.starts.end()

"""The function that makes events of the changes in the stream of refs."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api.event_stream import EventHandler
from turnstile.api.http.env import in_lambda

handler = EventHandler()
on_refs = handler.on_refs

if in_lambda():
    _ = handler.services  # a bad setting shows at the cold start

turnstile.api.starts.end()

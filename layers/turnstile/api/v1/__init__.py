"""Turnstile's own API, ``/v1`` (docs/api.md)."""

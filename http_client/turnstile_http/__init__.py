"""A client of Turnstile's HTTP API: its calls, their retries, and proposals that are repeated until
their outcome is known."""

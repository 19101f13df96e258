"""The matrix of tests/journeys: ways in which a table comes to be, ways in which it is used, ways
in which Turnstile runs."""

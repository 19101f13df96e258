"""One use case a module. Services hold ports, never clients; they are built once per sandbox by ``wiring``."""

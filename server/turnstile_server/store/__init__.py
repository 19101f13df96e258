"""The store of a server: its health, backups, relocation, and the stream of its changes."""

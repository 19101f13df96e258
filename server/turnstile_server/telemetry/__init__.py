"""Logs and metrics of the processes of a server."""

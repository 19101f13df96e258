"""The past of a catalog: its log, reading as of a moment, named snapshots, reset."""

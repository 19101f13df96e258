"""One Delta table: its commits are ratified, published into ``_delta_log``, recovered and
repaired."""

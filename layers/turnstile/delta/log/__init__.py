"""Reads a Delta table's ``_delta_log``, without the actions about files.

``lines``     lines and actions of a file, and the errors of an invalid one
``in_force``  which actions about the table as a whole are in force
``files``     the listing of a log, and one commit
``parquet``   checkpoint files
``state``     the state at a version, from checksum, checkpoint and commits
"""

"""Tables into the catalog and out of it: import of a filesystem-based Delta table, and export back to one.

``log_state``    what a table's ``_delta_log`` says now
``checkpoints``  the same from a checkpoint, where old commits are gone
``protocols``    table features: what the upgrade adds, what the exit removes
``commits``      the bytes of the two commits that cross the border
``importing`` ``exporting``    the two ways
"""

"""Damage, generated: every file below ten small tables is emptied, cut in half, changed in its
middle and removed, one at a time, and then every operation that derives something from a table is
called.

    python -m tests.support.damage            # all of it, some minutes; prints a table of counts

The outcome of a damage is one of

    told       an error of the product's own, a finding, a deviation or a problem names the file, or
               says that the folder is gone
    no effect  every answer is that of the undamaged table
    unnamed    an error of the product's own that names no file
    crashed    another exception
    believed   an answer that is wrong, or a file that was written or removed because of one

Tables are on files of a folder, with the coordinator's rows in memory.
"""

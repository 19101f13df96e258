"""Commands on what keeps tables whole and small: publishing, repair, gc, checks, maintenance, pins."""

"""Access control (I12): who asks, what was granted, what a request needs."""

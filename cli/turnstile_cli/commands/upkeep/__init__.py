"""Commands that keep tables whole and small: publish, repair, verify, gc, maintain, pins."""

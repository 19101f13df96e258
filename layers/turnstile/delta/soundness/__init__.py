"""Whether a table's log is sound (I24): facts for ``turnstile.delta.core.soundness``; and whether
it has versions after the HEAD's."""

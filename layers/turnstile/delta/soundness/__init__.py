"""Whether a table's log is sound (I24): facts for ``turnstile.delta.core.soundness``; and whether it goes on after what the HEAD knows."""

"""Routes of transactions: over tables and a catalog, announced ones, reservations and snapshots."""

"""Changes of a catalog that share a swap of its HEAD."""

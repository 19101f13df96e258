"""Changes of a catalog: computed from its tree, and committed by one swap of its HEAD."""

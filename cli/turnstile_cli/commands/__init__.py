"""The commands, one module for each subject; ``main`` registers them."""

"""Checks of a deployment: of its stores and its work, clocks, damaged rows, folders and imports."""

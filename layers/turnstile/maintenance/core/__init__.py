"""The rules of upkeep, pure."""

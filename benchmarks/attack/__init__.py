"""Honest clients beside an attacker."""

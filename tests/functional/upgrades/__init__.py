"""Stores of earlier states of the code, opened by this one."""

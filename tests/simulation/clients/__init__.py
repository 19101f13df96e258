"""Simulations of clients, whose server is a log in memory."""

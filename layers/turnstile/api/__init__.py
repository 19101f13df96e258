"""The HTTP APIs. ``http`` holds what all share, ``auth`` tells who asks; the others are one API each."""

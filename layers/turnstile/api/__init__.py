"""The HTTP APIs. ``apps`` builds each from its views; ``http`` holds the common parts, ``auth``
authenticates callers; the other folders are one API each."""

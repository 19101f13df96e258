"""The HTTP APIs. ``apps`` builds each from its views; ``http`` holds what all share, ``auth`` says who asks; the other
folders are one API each."""

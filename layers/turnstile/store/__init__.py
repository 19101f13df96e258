"""The storage of everything: rows of refs, objs, log storage. Ports, and the language in which
writes are described."""

"""The ``turnstile`` command: run a server, look at tables, operate them. It speaks HTTP like any
client.

Exit codes, the same for every command:

==== =====================================================================================
code meaning
==== =====================================================================================
0    done
1    failure: a fault of the server
2    usage: an option or a name that cannot be right
3    not found: catalog, namespace, table, file
4    refused: conflict, permission or a bad request; nothing changed
5    the server is not running or cannot be reached
6    unknown outcome: the same command again shows it
7    the store cannot be used: damaged, gone, locked, full, denied or unreachable
==== =====================================================================================
"""

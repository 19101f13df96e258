"""The embedded stack: template.yaml on one machine, in one process, for development and tests.

It runs an emulator of AWS (MiniStack) behind one short URL. It is a **development stack**: it is
not durable, because state is written when it stops in order, and by default no permission is
checked. It refuses requests that a web page sends, and the emulated AWS accepts only requests that
are signed by the stack's own key (``guards``).

>>> from turnstile_local import Stack >>> with Stack.start(home=".turnstile", port=0) as stack: ...
print(stack.url)
"""

from turnstile_local.errors import StackError
from turnstile_local.home import StackState
from turnstile_local.stack import Stack

__all__ = ["Stack", "StackError", "StackState"]

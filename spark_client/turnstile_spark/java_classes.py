"""The Java classes of this package, which a JVM compiles when it needs one.

Some of Spark's and Delta's types are classes, which no Python object can extend, and a listener in
Python would be called for every event of every task. The sources are in ``java/``; Janino compiles
them, with which Spark compiles its own generated code. Janino knows no generics and no lambdas.
"""

from __future__ import annotations

import threading
from importlib.resources import files
from typing import Any, Final

from turnstile_spark.errors import turnstile_error
from turnstile_spark.jvm import JavaObject, Jvm

COMPILER: Final = "org.codehaus.janino.SimpleCompiler"
_BESIDE: Final = "org.apache.spark.sql.delta.DeltaLog"
_lock = threading.Lock()
_compiled: dict[tuple[int, str], JavaObject] = {}  # by the JVM's port and the class's name


def java_class(jvm: Jvm, name: str) -> JavaObject:
    """Returns the ``java.lang.Class`` of ``java/<name>.java``, which each JVM compiles once. Raises
    ``TURNSTILE_SELF_TEST`` where it cannot be compiled with the Spark and Delta that are there.
    """
    key = int(jvm.gateway.gateway_parameters.port), name
    with _lock:
        if key not in _compiled:
            try:
                _compiled[key] = _compile(jvm, name)
            except Exception as e:
                text = (
                    f"java/{name}.java cannot be compiled: this package is built for Spark 4.0 to 4.2 and Delta 4.4.0"
                )
                raise turnstile_error("TURNSTILE_SELF_TEST", f"{text} ({str(e)[:300]})") from e
        return _compiled[key]


def java_object(jvm: Jvm, name: str, *arguments: Any) -> JavaObject:
    """Returns a new object of the class in ``java/<name>.java``, which has one constructor. Raises
    as :func:`java_class`."""
    (constructor,) = java_class(jvm, name).getConstructors()
    given = jvm.new("java.util.ArrayList")  # an array's element can be no proxy
    for argument in arguments:
        given.add(argument)
    return constructor.newInstance(given.toArray())


def _compile(jvm: Jvm, name: str) -> JavaObject:
    source = files("turnstile_spark").joinpath("java", f"{name}.java").read_text(encoding="utf-8")
    compiler = jvm.new(COMPILER)
    compiler.setParentClassLoader(jvm.class_for_name(_BESIDE).getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(f"turnstile.spark.{name}")

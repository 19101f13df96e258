"""Helpers over py4j: class handles, Scala values, and the guard every callback from the JVM passes
through.

py4j resolves ``jvm.a.b.C`` with one round trip per part of the name (about 1 ms in all), while a
call on a handle costs about 0.05 ms: :class:`Jvm` asks for a class once, by its full name, and
keeps the handle.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

log = logging.getLogger("turnstile_spark")

#: A Java object seen through py4j; py4j has no static types.
JavaObject = Any

T = TypeVar("T", bound=type)


class Jvm:
    """The JVM of one PySpark gateway, with cached class handles.

    ``spark``: any :class:`pyspark.sql.SparkSession` of that JVM (classic, not Spark Connect).
    """

    def __init__(self, spark: Any) -> None:
        self.gateway = spark.sparkContext._gateway
        self.view = self.gateway.jvm
        self._classes: dict[str, JavaObject] = {}

    def cls(self, name: str) -> JavaObject:
        """The handle of the class with this full name (its static members and constructor)."""
        handle = self._classes.get(name)
        if handle is None:
            handle = getattr(self.view, name)
            self._classes[name] = handle
        return handle

    def new(self, name: str, *args: Any) -> JavaObject:
        """A new object of the named class."""
        return self.cls(name)(*args)

    def module(self, name: str) -> JavaObject:
        """The singleton behind a Scala ``object`` of this full name."""
        key = name + "$.MODULE$"
        if key not in self._classes:
            self._classes[key] = getattr(getattr(self.view, name + "$"), "MODULE$")
        return self._classes[key]

    def class_for_name(self, name: str) -> JavaObject:
        """The ``java.lang.Class`` of this name, found with Spark's class loader (which also sees
        ``spark.jars``)."""
        key = name + ".class"
        if key not in self._classes:
            self._classes[key] = self.cls("org.apache.spark.util.Utils").classForName(name, True, False)
        return self._classes[key]

    def some(self, value: Any) -> JavaObject:
        """``scala.Some(value)``."""
        return self.new("scala.Some", value)

    def some_long(self, value: int) -> JavaObject:
        """``Some`` of a Java ``Long``: py4j would make an ``Integer`` of a small number."""
        return self.cls("scala.jdk.javaapi.OptionConverters").toScala(self.cls("java.util.OptionalLong").of(value))

    def strings(self, values: Iterable[str]) -> JavaObject:
        """A Java ``String[]``."""
        return self.array("java.lang.String", list(values))

    def array(self, name: str, values: list[Any]) -> JavaObject:
        """A Java array of the named class."""
        array = self.gateway.new_array(self.cls(name), len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

    def string_arrays(self, values: list[list[str]]) -> JavaObject:
        """A Java ``String[][]``."""
        array = self.gateway.new_array(self.cls("java.lang.String"), len(values), 0)
        for at, value in enumerate(values):
            array[at] = self.strings(value)
        return array

    def hash_map(self, values: Mapping[str, str]) -> JavaObject:
        """A mutable ``java.util.HashMap`` with these entries."""
        result = self.new("java.util.HashMap")
        for key, value in values.items():
            result.put(key, value)
        return result

    def scala_copy(self, value: JavaObject, **changes: Any) -> JavaObject:
        """Copies a Scala case class object with some members replaced, as ``value.copy(name =
        ...)`` does in Scala."""
        names = [value.productElementName(at) for at in range(value.productArity())]
        args = [changes[n] if n in changes else getattr(value, f"copy$default${i + 1}")() for i, n in enumerate(names)]
        unknown = set(changes) - set(names)
        if unknown:
            raise AttributeError(f"{value.getClass().getName()} has no member {sorted(unknown)}")
        return value.copy(*args)


def items(collection: JavaObject) -> Iterator[JavaObject]:
    """Yields the items of a Java or Scala collection. Use it instead of py4j's own iteration, whose
    end is a JVM exception that PySpark converts in a hundred calls (10 ms)."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def string_dict(java_map: JavaObject) -> dict[str, str]:
    """Returns the entries of a Java ``Map`` as strings."""
    return {str(entry.getKey()): str(entry.getValue()) for entry in items(java_map.entrySet())}


def names_of(array: JavaObject) -> list[str]:
    """A Java ``String[]`` as a list."""
    return [str(x) for x in array]


class _Raise(Py4JJavaError):  # type: ignore[misc]
    """A JVM exception that a callback hands to the JVM on purpose: py4j must not log it as a
    failure."""


def throw(exception: JavaObject) -> Py4JJavaError:
    """The Python exception by which a callback throws this JVM exception into the JVM: ``raise
    throw(exception)``."""
    return _Raise("", exception)


class _Quiet(logging.Filter):
    """py4j logs every exception a callback raises, with its stack; one raised on purpose is an
    answer, not a failure."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], _Raise))


_quiet = _Quiet()


def let_java_exceptions_through(gateway: Any) -> None:
    """Makes py4j carry JVM exceptions raised by callbacks as themselves. Idempotent."""
    gateway.python_parameters.propagate_java_exceptions = True
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_quiet)  # addFilter ignores a filter that is there already


def guard_callback(function: Callable[..., Any], runtime_exception: Callable[[str], JavaObject]) -> Callable[..., Any]:
    """Wraps one callback so that only JVM exceptions leave it.

    * ours (:func:`throw`) pass as they are;
    * a JVM exception met by a nested call was converted by PySpark: its original is handed back;
    * anything else is a defect of this package: logged with its stack, thrown as a
      ``RuntimeException`` with its text.
    """

    @functools.wraps(function)
    def callback(*args: Any) -> Any:
        try:
            return function(*args)
        except _Raise:
            raise
        except CapturedException as e:
            if e._origin is not None:
                raise throw(e._origin) from None
            raise throw(runtime_exception(str(e))) from e
        except Py4JJavaError as e:
            raise throw(e.java_exception) from None
        except Exception as e:
            log.exception("turnstile_spark: %s failed", function.__qualname__)
            raise throw(runtime_exception(f"[TURNSTILE_CLIENT_ERROR] {type(e).__name__}: {e}")) from e

    return callback


class Proxy:
    """Base of every object that the JVM calls: identity methods that Java expects, and
    :func:`guard_callback` on all methods.

    py4j runs no Java default methods, so a proxy must have a Python method for *every* method of
    its interfaces.
    """

    jvm: Jvm

    def toString(self) -> str:
        return repr(self)

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:
        return self is other

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, member in list(vars(cls).items()):
            if callable(member) and not name.startswith("_") and name != "Java" and not isinstance(member, type):
                setattr(cls, name, _guard_method(member))


def _guard_method(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded_method(self: Proxy, *args: Any) -> Any:
        return guard_callback(method, lambda text: self.jvm.new("java.lang.RuntimeException", text))(self, *args)

    return guarded_method

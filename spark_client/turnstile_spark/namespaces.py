"""Spark's ``SupportsNamespaces``, answered by the server. A namespace of several levels is written ``a.b`` there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstile_spark.errors import ApiError
from turnstile_spark.jvm import JavaObject, Proxy, names_of

if TYPE_CHECKING:
    from turnstile_spark.lake import Lake

#: Keys Spark reserves: the comment has a member of its own, owner and location are not kept.
_COMMENT, _RESERVED = "comment", ("comment", "owner", "location", "collation")


class Namespaces(Proxy):
    """The namespace methods of a catalog object."""

    lake: Lake

    def defaultNamespace(self) -> JavaObject:
        return self.jvm.strings(["default"])

    def listNamespaces(self, *parent: JavaObject) -> JavaObject:
        above = names_of(parent[0]) if parent else []
        if above:
            self.loadNamespaceMetadata(parent[0])
        try:
            found = [name.split(".") for name in self.lake.api.namespaces()]
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, above) from None
        depth = len(above) + 1
        children = {
            tuple(levels[:depth]) for levels in found if len(levels) >= depth and levels[:-1][: depth - 1] == above
        }
        return self.jvm.string_arrays([list(levels) for levels in sorted(children)])

    def namespaceExists(self, levels: JavaObject) -> bool:
        names = names_of(levels)
        if not names:
            return True
        try:
            self.lake.api.namespace(".".join(names))
        except ApiError as e:
            if e.type in ("NoSuchNamespace", "NoSuchCatalog", "InvalidRequest"):
                return False
            raise self.lake.throw.namespace_error(e, names) from None
        return True

    def loadNamespaceMetadata(self, levels: JavaObject) -> JavaObject:
        names = names_of(levels)
        name = ".".join(names)
        try:
            found = self.lake.freshness.once_per_analysis("namespace " + name, lambda: self.lake.api.namespace(name))
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None
        values = {str(k): str(v) for k, v in (found.get("properties") or {}).items()}
        if found.get("comment"):
            values[_COMMENT] = found["comment"]
        return self.jvm.hash_map(values)

    def createNamespace(self, levels: JavaObject, properties: JavaObject) -> None:
        names, given = names_of(levels), {str(k): str(v) for k, v in dict(properties).items()}
        kept = {k: v for k, v in given.items() if k not in _RESERVED}
        try:
            self.lake.api.create_namespace(".".join(names), given.get(_COMMENT), kept)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def alterNamespace(self, levels: JavaObject, changes: JavaObject) -> None:
        names, put, remove, comment = names_of(levels), {}, [], None
        for change in changes:
            key = change.property()
            if change.getClass().getSimpleName() == "RemoveProperty":
                remove.append(key)
            elif key == _COMMENT:
                comment = change.value()
            else:
                put[key] = change.value()
        try:
            self.lake.api.alter_namespace(".".join(names), comment, put, remove)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def dropNamespace(self, levels: JavaObject, cascade: bool) -> bool:
        names = names_of(levels)
        try:
            return self.lake.api.drop_namespace(".".join(names), bool(cascade))
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

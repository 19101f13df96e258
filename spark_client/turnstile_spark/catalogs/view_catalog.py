"""The views of a lake as Spark's ``ViewCatalog`` has them, over
:mod:`turnstile_spark.catalogs.views`."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from turnstile_http.errors import ApiError
from turnstile_spark.catalogs.delegate import LakeCatalog
from turnstile_spark.catalogs.views import NO_VIEW, ViewNotForSpark, definition_of, from_java, to_java
from turnstile_spark.context import LakeContext
from turnstile_spark.jvm import JavaObject, names_of


class ViewsOfLake(LakeCatalog):
    """``ViewCatalog`` for one session (a JVM ``SparkSession``). Tables and views of a namespace
    share their names."""

    def __init__(self, lake: LakeContext, session: JavaObject) -> None:
        super().__init__(lake, session)

    def _metadata(self, levels: list[str], name: str) -> dict[str, Any] | None:
        """The metadata of the view of this name; None when there is none."""
        try:
            return self.lake.views.load(levels, name) if levels else None
        except ApiError as e:
            if e.type in NO_VIEW:
                return None
            raise self.lake.throw.other(e) from None

    def _view(self, levels: list[str], name: str) -> JavaObject | None:
        """Spark's ``View`` of this name; None when there is none. Throws when it is none that Spark
        can read."""
        metadata = self._metadata(levels, name)
        if metadata is None:
            return None
        try:
            definition = definition_of(".".join((self.lake.name, *levels, name)), metadata)
        except ViewNotForSpark as e:
            raise self.lake.throw.unsupported_operation(str(e)) from None
        return to_java(self.jvm, definition, self.lake.name)

    def loadView(self, identifier: JavaObject) -> JavaObject:
        view = self._view(*self._split(identifier))
        if view is None:
            raise self.lake.throw.no_such_view(identifier)
        return view

    def viewExists(self, identifier: JavaObject) -> bool:
        return self._metadata(*self._split(identifier)) is not None

    def invalidateView(self, identifier: JavaObject) -> None:
        """Nothing is cached by name."""

    def listViews(self, levels: JavaObject) -> JavaObject:
        identifier = self.jvm.cls("org.apache.spark.sql.connector.catalog.Identifier")
        identifiers = [identifier.of(levels, name) for name in self._views(levels)]
        return self.jvm.array("org.apache.spark.sql.connector.catalog.Identifier", identifiers)

    def listRelationSummaries(self, levels: JavaObject) -> JavaObject:
        tables = self._tables(levels)
        views = self._views(levels)
        return self._summaries(levels, [*((name, "MANAGED") for name in tables), *((name, "VIEW") for name in views)])

    def _views(self, levels: JavaObject) -> list[str]:
        names = names_of(levels)
        if not names or self._created_namespace(names) is not None:
            return []
        try:
            return self.lake.views.names(names)
        except ApiError as e:
            raise self.lake.throw.namespace_error(e, names) from None

    def createView(self, identifier: JavaObject, view: JavaObject) -> JavaObject:
        self._outside_of_scopes("CREATE VIEW")
        levels, name = self._split(identifier)
        try:
            self.lake.views.create(levels, name, from_java(view, self.lake.name))
        except ApiError as e:
            raise self._failure(e, identifier, levels) from None
        except ViewNotForSpark as e:
            raise self.lake.throw.unsupported_operation(f"CREATE VIEW: {e}") from None
        return view

    def replaceView(self, identifier: JavaObject, view: JavaObject) -> JavaObject:
        self._outside_of_scopes("ALTER VIEW")
        try:
            self.lake.views.replace(*self._split(identifier), from_java(view, self.lake.name))
        except ApiError as e:
            if e.type in NO_VIEW:
                raise self.lake.throw.no_such_view(identifier) from None
            raise self.lake.throw.other(e) from None
        except ViewNotForSpark as e:
            raise self.lake.throw.unsupported_operation(f"ALTER VIEW: {e}") from None
        return view

    def createOrReplaceView(self, identifier: JavaObject, view: JavaObject) -> JavaObject:
        exists = self.viewExists(identifier)
        return self.replaceView(identifier, view) if exists else self.createView(identifier, view)

    def dropView(self, identifier: JavaObject) -> bool:
        self._outside_of_scopes("DROP VIEW")
        levels, name = self._split(identifier)
        try:
            return bool(levels) and self.lake.views.drop(levels, name)
        except ApiError as e:
            raise self.lake.throw.other(e) from None

    def renameView(self, old: JavaObject, new: JavaObject) -> None:
        self._outside_of_scopes("ALTER VIEW")
        levels, name = self._split(old)
        to_levels, to_name = self._new_name("VIEW", levels, new)
        try:
            self.lake.views.rename(levels, name, to_levels, to_name)
        except ApiError as e:
            if e.type in ("NoSuchViewException", "NoSuchTableException"):
                raise self.lake.throw.no_such_view(old) from None
            raise self._failure(e, new, to_levels) from None

    def _failure(self, e: ApiError, identifier: JavaObject, levels: list[str]) -> Py4JJavaError:
        """The exception to throw when a view did not get this name."""
        if e.type == "AlreadyExistsException":
            return self.lake.throw.view_exists(identifier)
        if e.type == "NoSuchNamespaceException":
            return self.lake.throw.no_such_namespace([self.lake.name, *levels])
        return self.lake.throw.other(e)

    def _new_name(self, kind: str, levels: list[str], new: JavaObject) -> tuple[list[str], str]:
        """Namespace and name after RENAME TO, which Spark passes on as they are written: with or
        without a catalog."""
        to_levels = names_of(new.namespace())
        to_name = str(new.name())
        if len(to_levels) > 1:
            if to_levels[0] == self.lake.name:
                to_levels = to_levels[1:]
            elif self.session.sessionState().catalogManager().isCatalogRegistered(to_levels[0]):
                text = (
                    f"ALTER {kind} ... RENAME TO {'.'.join(to_levels)}.{to_name}: nothing can leave its catalog by "
                    f"RENAME. Copy it with CREATE {kind} ... AS SELECT"
                )
                raise self.lake.throw.unsupported_operation(text)
        return to_levels or levels, to_name

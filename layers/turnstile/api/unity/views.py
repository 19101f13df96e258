"""Views in Unity Catalog's older API: made, shown, listed and dropped. They are the views of
Iceberg's API and of Spark's lake."""

from __future__ import annotations

from typing import Final

from turnstile.access.authorizer import Need, Target
from turnstile.api.http.authorization import guard
from turnstile.api.iceberg.context import context_of
from turnstile.api.services import services
from turnstile.api.unity import columns, older_api
from turnstile.catalog.core.entities import ICEBERG_VIEW, IcebergView
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import View
from turnstile.iceberg.core.unity_views import DIALECTS, UnityView, new_version, view_of
from turnstile.iceberg.views import CreateView, LoadedView, Views
from turnstile.rights.rules import see_table
from turnstile.store.core.errors import InvalidRequest, TurnstileError

Names = tuple[str, Path, str]

PAGE: Final = 100
"""Views of a page at most: the metadata file of each is read, unless it is cached."""


def create(request: older_api.NewTable, names: Names) -> None:
    """Makes a view. Raises InvalidRequest, NotFound, AlreadyExists."""
    if not request.view_definition:
        raise InvalidRequest(
            "view_definition is missing", field="view_definition", remedy="send the definition of the view"
        )
    if request.storage_location is not None:
        raise InvalidRequest("a view has no location", field="storage_location", remedy="leave it out")
    fields, _ = columns.to_fields(request.columns or [])
    view = UnityView(
        request.table_type,
        request.view_definition,
        list(fields),
        request.comment,
        request.properties or {},
        request.view_dependencies,
    )
    catalog, namespace, name = names
    reader = services().catalog.reader
    require_free(View(reader.current(catalog), reader.store), (*namespace, name), "name")
    schema, version, properties = new_version(view, namespace, services().world.clock.now_ms())
    made = CreateView(name, schema, version, properties=properties)
    Views(context_of(guard())).create(catalog, namespace, made)


def find(names: Names) -> older_api.TableInfo | None:
    """Returns the view that the name leads to; None for nothing, or something else. Requires that
    the request may see it."""
    catalog, namespace, name = names
    view = View(services().open_reader.current(catalog), services().open_reader.store)
    entry = view.tree.find((*namespace, name))
    if entry is None or entry.kind != ICEBERG_VIEW:
        return None
    services().guard_of(Need(see_table, Target(*names))).authorize(view.tree)
    entity = view.entity(entry.obj)
    assert isinstance(entity, IcebergView)
    return _info(view.tree.catalog, dotted_name(*view.written_levels(namespace)), entity)


def drop(names: Names) -> bool:
    """Drops the view that the name leads to; False if it leads to none."""
    catalog, namespace, name = names
    entry = services().catalog.reader.current(catalog).find((*namespace, name))
    if entry is None or entry.kind != ICEBERG_VIEW:
        return False
    Views(context_of(guard())).drop(catalog, (*namespace, name))
    return True


def page(catalog: str, namespace: Path, after: str, most: int) -> tuple[list[older_api.TableInfo], str | None]:
    """Returns views of a schema behind the name ``after``, in the order of their names, and the
    name to go on behind."""
    reader = services().catalog.reader
    view = View(reader.current(catalog), reader.store)
    named = ((path_of(key)[-1], entry) for key, entry in view.tree.children(namespace, ICEBERG_VIEW))
    rest = [(name, entry) for name, entry in named if name > after]
    shown = rest[: min(most, PAGE)]
    entities = view.entities([entry.obj for _, entry in shown])
    schema = dotted_name(*view.written_levels(namespace))
    infos = [
        _info(view.tree.catalog, schema, entity)
        for _, entry in shown
        if isinstance(entity := entities[entry.obj], IcebergView)
    ]
    return infos, shown[-1][0] if len(rest) > len(shown) else None


def _info(catalog: str, schema: str, entity: IcebergView) -> older_api.TableInfo:
    """The view in the API's form. A view is shown without columns and definition if its metadata
    file cannot be read."""
    try:
        view = view_of(LoadedView(entity, services().metadata_files.view(entity)).metadata)
    except TurnstileError:
        view = UnityView(next(iter(DIALECTS)), None, [], None, {})
    return older_api.view(catalog, schema, entity, view)

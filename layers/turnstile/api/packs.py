"""Imports the modules of a layer from one file, its *module pack*. Without it a start looks for
some 450 modules in folders and opens one file after the other.

    layers/build.py                writes ``modules.pack`` into the layer, beside the sources
    turnstile.api.starts           calls ``install`` before other modules are imported
    PackFinder                     finds a module in the pack's index
    PackLoader                     executes its code; all else is as of a module in a file

A pack is of one version of Python's compiled code, by its magic number. If it is another one, or if
there is no pack, modules are imported from their files as usual. A pack is::

    FORMAT                         8 bytes
    the magic number               4 bytes (importlib.util.MAGIC_NUMBER)
    the size of the index          4 bytes, little end first
    the index                      marshalled: name of a module -> (place, size, whether a package)
    code objects                   marshalled; places are counted from the first of them
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, ModuleType

NAME: Final = "modules.pack"
FORMAT: Final = b"tslpack1"
HEADER_BYTES: Final = len(FORMAT) + 8

Index = dict[str, tuple[int, int, bool]]


def install(folder: str = "") -> PackFinder | None:
    """Lets modules of the layer in ``folder`` (by default the one that holds this module) be
    imported from its pack. Returns None, and changes nothing, if there is no pack for this Python,
    or if ``folder`` is not on the path.
    """
    folder = folder or os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120  pathlib is late
    if folder not in sys.path:
        return None
    try:
        file = os.open(f"{folder}/{NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    header = os.pread(file, HEADER_BYTES, 0)
    if header[:-4] != FORMAT + MAGIC_NUMBER:
        os.close(file)
        return None
    finder = PackFinder(folder, file, int.from_bytes(header[-4:], "little"))
    finder.leave_out(names_in(sys.path[: sys.path.index(folder)]))
    sys.meta_path.insert(0, finder)
    return finder


class PackFinder:
    """A finder of ``sys.meta_path`` that answers for the modules of a pack. ``file`` is the open
    pack of the layer in ``folder``, ``index_bytes`` the size of its index."""

    def __init__(self, folder: str, file: int, index_bytes: int) -> None:
        self.folder = folder
        self._file = file
        self._index: Index = marshal.loads(os.pread(file, index_bytes, HEADER_BYTES))  # noqa: S302  of the same layer
        self._codes = HEADER_BYTES + index_bytes

    def leave_out(self, names: Iterable[str]) -> None:
        """Removes modules and packages from the index, by name: folders before the layer on the
        path have them too."""
        for name in names:
            self._index.pop(name, None)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the module's specification, as from its file; None if the pack does not have it,
        or if its package is not the layer's."""
        entry = self._index.get(name)
        if entry is None:
            return None
        below = f"{self.folder}/{name.replace('.', '/')}"
        if path is not None and below.rpartition("/")[0] not in path:
            return None
        place, size, is_package = entry
        origin = f"{below}/__init__.py" if is_package else f"{below}.py"
        spec = ModuleSpec(
            name, PackLoader(name, origin, self._file, self._codes + place, size), origin=origin, is_package=is_package
        )
        if is_package:
            spec.submodule_search_locations = [below]
        spec.has_location = True
        spec.cached = f"{self.folder}/{NAME}"
        return spec


class PackLoader(SourceFileLoader):
    """Loads a module's code from the pack. Its source, its resources and its file's name are those
    of its file, which lies in the layer."""

    def __init__(self, name: str, path: str, file: int, place: int, size: int) -> None:
        super().__init__(name, path)
        self._pack = (file, size, place)

    def get_code(self, fullname: str) -> CodeType:
        """Returns the module's code, with the name of its file where it is now."""
        code: CodeType = marshal.loads(os.pread(*self._pack))  # noqa: S302
        path = self.get_filename(fullname)
        if code.co_filename != path:
            _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]  # noqa: SLF001  as importlib does
        return code


def names_in(folders: Iterable[str]) -> set[str]:
    """Returns the names of modules and packages in these folders; a missing folder has none."""
    names = set()
    for folder in folders:
        try:
            names |= {entry.partition(".")[0] for entry in os.listdir(folder or ".")}  # noqa: PTH208
        except OSError:
            continue
    return names

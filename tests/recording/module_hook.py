"""Does something to a module as soon as it is imported, or at once if it is."""

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def run_after_import(name: str, act: Callable[[ModuleType], None]) -> None:
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder(MetaPathFinder):
    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            found = finder.find_spec(name, path, target)
            if found is not None and found.loader is not None:
                found.loader = _Loader(found.loader, self._act)
                return found
        return None


class _Loader(Loader):
    def __init__(self, loader: Loader, act: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._act(module)

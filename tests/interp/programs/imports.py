"""Import statements, run against modules made on the spot."""
# ruff: noqa

import builtins
import importlib
import sys
import types

from . import process_wide


def _module(name, **attributes):
    module = types.ModuleType(name)
    vars(module).update(attributes)
    return module


class _Installed:
    """Puts modules into sys.modules for the length of a block."""

    def __init__(self, *modules, **others):
        self.modules = {m.__name__: m for m in modules} | others

    def __enter__(self):
        sys.modules.update(self.modules)

    def __exit__(self, *args):
        for name in self.modules:
            sys.modules.pop(name, None)


def plain_forms(log):
    import math
    import os.path
    import os.path as p
    import xml.dom as dom, json as j
    from math import pi, floor as lower
    from os import path

    return math.floor(2.5), os.path.join("a", "b"), p is path, dom.__name__, j.dumps([1]), lower(pi)


def missing_module(log):
    try:
        import no_such_module_here
    except ModuleNotFoundError as e:
        log.append((str(e), e.name, e.path))
    try:
        import os.no_such_part
    except ModuleNotFoundError as e:
        log.append((str(e), e.name))
    try:
        import json.decoder.deeper
    except ModuleNotFoundError as e:
        log.append(str(e))
    from no_such_package.part import thing


def missing_name(log):
    with _Installed(_module("fake_plain"), _module("fake_located", __file__="fake_located.py", __spec__=None)):
        for source in ("from fake_plain import x", "from fake_located import y", "from math import nothing"):
            try:
                exec(source, {})
            except ImportError as e:
                log.append((str(e).replace(importlib.import_module("math").__file__ or "", "FILE"), e.name))
        from fake_plain import missing_thing


def partially_initialised_module(log):
    class Spec:
        _initializing = True
        has_location = False
        origin = None

    module = _module("fake_partial", __spec__=Spec())
    with _Installed(module):
        try:
            from fake_partial import later
        except ImportError as e:
            log.append(str(e))
        try:
            module.later
        except AttributeError as e:
            log.append(str(e))


def star_import(log):
    all_given = _module("fake_all", a=1, b=2, _c=3, __all__=["a", "_c"])
    without_all = _module("fake_noall", a=1, _b=2)
    with _Installed(all_given, without_all):
        for name in ("fake_all", "fake_noall"):
            namespace = {}
            exec(f"from {name} import *", namespace)
            log.append(sorted(k for k in namespace if k != "__builtins__"))


def star_import_errors(log):
    modules = (
        _module("fake_missing", __all__=["gone"]),
        _module("fake_number", __all__=[5]),
        _module("fake_nolist", __all__=7),
    )
    with _Installed(*modules):
        for module in modules:
            try:
                exec(f"from {module.__name__} import *", {})
            except (AttributeError, TypeError) as e:
                log.append((type(e).__name__, str(e)))
    with _Installed(fake_object=5):
        exec("from fake_object import *", {})


def star_import_of_module_getattr(log):
    def lazy(name):
        log.append(name)
        if name == "__all__":
            return ["x"]
        if name == "x":
            return 1
        raise AttributeError(name)

    with _Installed(_module("fake_lazy", __getattr__=lazy)):
        namespace = {}
        exec("from fake_lazy import *", namespace)
        return namespace["x"]


def from_import_uses_getattr_then_sys_modules(log):
    package = _module("fake_pkg", __path__=[])
    child = _module("fake_pkg.child", value=3)
    with _Installed(package, child):
        from fake_pkg import child as got

        log.append(got.value)
        import fake_pkg.child as by_dots

        log.append(by_dots is child)
        import fake_pkg.child

        log.append(fake_pkg is package)


def objects_in_sys_modules(log):
    class Odd:
        x = 5

        def __getattr__(self, name):
            log.append(name)
            raise AttributeError(name)

    with _Installed(fake_odd=Odd(), fake_none=None):
        from fake_odd import x

        log.append(x)
        try:
            from fake_odd import y
        except ImportError as e:
            log.append(str(e))
        import fake_none


def relative_imports(log):
    package = _module("fake_rel", __path__=[], top="top")
    child = _module("fake_rel.child", value=1)
    package.child = child
    with _Installed(package, child):
        namespace = {"__package__": "fake_rel", "__name__": "fake_rel.main"}
        exec(
            "from . import child, top\nfrom .child import value\nfrom .. import above"
            if False
            else "from . import child, top\nfrom .child import value",
            namespace,
        )
        log.append((namespace["value"], namespace["top"]))
        for source, names in (
            ("from .. import above", {"__package__": "fake_rel"}),
            ("from . import x", {"__name__": "__main__", "__package__": None}),
            ("from . import x", {"__package__": ""}),
            ("from .nothing import x", {"__package__": "fake_rel"}),
            ("from . import x", {"__package__": 5}),
            ("from . import nothing", {"__package__": "fake_rel"}),
        ):
            try:
                exec(source, dict(names))
            except (ImportError, TypeError, KeyError) as e:
                log.append((type(e).__name__, str(e)))


@process_wide
def import_function_replaced(log):
    original = builtins.__import__

    def spy(name, globals=None, locals=None, fromlist=(), level=0):
        log.append((name, fromlist, level, globals is not None))
        if name == "imaginary":
            return types.SimpleNamespace(thing=42)
        return original(name, globals, locals, fromlist, level)

    builtins.__import__ = spy
    try:
        import imaginary
        import math
        from imaginary import thing
        import os.path as p
    finally:
        builtins.__import__ = original
    return imaginary.thing, thing, math.__name__


def import_without_import_function(log):
    exec("import math", {"__builtins__": {}})


def module_body_runs_once_and_raises(log):
    class Loader:
        def __init__(self, source):
            self.source = source

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            module.log = log
            exec(self.source, vars(module))

    class Finder:
        sources = {
            "fake_good": "log.append('body'); import fake_friend; value = 1 + fake_friend.value",
            "fake_friend": "import fake_good; log.append(hasattr(fake_good, 'value')); value = 10",
            "fake_bad": "x = 1\nlog.append('bad')\ny = x.missing\n",
        }

        def find_spec(self, name, path=None, target=None):
            if name in self.sources:
                return importlib.machinery.ModuleSpec(name, Loader(self.sources[name]))

    finder = Finder()
    sys.meta_path.insert(0, finder)
    try:
        import fake_good
        import fake_good as again

        log.append((again is fake_good, fake_good.value))
        try:
            import fake_bad
        except AttributeError as e:
            log.append((str(e), "fake_bad" in sys.modules))
    finally:
        sys.meta_path.remove(finder)
        for name in Finder.sources:
            sys.modules.pop(name, None)


def import_in_class_and_function_scope(log):
    class A:
        import math
        from math import pi as number

    def f():
        global _imported
        import json as _imported

        return _imported.loads("[1]")

    value = f()
    log.append(globals().pop("_imported").__name__)
    return A.math.__name__, A.number, value

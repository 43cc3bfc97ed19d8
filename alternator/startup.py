"""`ALTERNATOR=1`: programs run on Alternator without an edit.

An installed package has a file `alternator.pth`, which Python reads when it starts; with the variable set, it imports
this module. Importing torch._dynamo takes seconds and most programs never do: `watch()` waits until one does
(torch.compile does at its first call) and installs then.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys

MODULE = "torch._dynamo"
is_early = False  # torch._dynamo has just been loaded: no program has marked anything yet
pending = False  # torch._dynamo was loaded by alternator.takeover, which installs when it is loaded itself


class Watcher(importlib.abc.MetaPathFinder):
    """Finds torch._dynamo as always, and installs when it has been loaded."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self.load_with(spec.loader.exec_module)
        return spec

    def load_with(self, load):
        def load_and_install(module):
            load(module)
            takeover = sys.modules.get("alternator.takeover")
            if takeover is not None and not hasattr(takeover, "install"):
                global pending
                pending = True
                return
            import alternator

            global is_early
            is_early = True
            alternator.install()
            is_early = False

        return load_and_install


def watch():
    """Install as soon as the program imports torch._dynamo."""
    if MODULE in sys.modules:
        import alternator

        alternator.install()
    else:
        sys.meta_path.insert(0, Watcher())

"""What alternator.pth does for an installed package, for a build that is found through PYTHONPATH.

Python reads .pth files in site-packages only; a module of this name it imports from anywhere, once. So it is passed on.
"""

import importlib.machinery
import importlib.util
import os
import sys

if os.environ.get("ALTERNATOR", "0") not in ("", "0"):
    import alternator.startup

    alternator.startup.watch()

here = os.path.realpath(__file__)
others = [path for path in sys.path if os.path.realpath(os.path.join(path, "sitecustomize.py")) != here]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))

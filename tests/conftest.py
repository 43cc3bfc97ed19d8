"""What holds for every test: which build is tested, and how hypothesis behaves."""

import importlib.util
import os

from hypothesis import settings

# As many processes as cores run the tests: threads of torch that wait for each other would only spin. Before torch is
# imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadline: a test must not fail because the machine is busy, or because a sanitizer is on.
settings.register_profile("alternator", deadline=None, print_blob=True)
settings.load_profile("alternator")


def pytest_report_header(config):
    # The checkout's own alternator/ has no _C; when it comes first on sys.path, say so before the tests fail.
    try:
        built = importlib.util.find_spec("alternator._C") is not None
    except ImportError:
        built = False
    if not built:
        return "alternator: NOT BUILT, or not on the path; `./dev test` builds it and runs pytest on the build"
    return f"alternator: {os.environ.get('ALTERNATOR_FLAVOUR', 'installed')} build"

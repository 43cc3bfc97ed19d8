"""A pytest plugin for other people's suites: hypothesis draws the same examples in every run and looks at no clock."""

from hypothesis import HealthCheck, settings


def pytest_sessionstart(session):
    # Not in pytest_configure: some suites load a profile of their own there.
    settings.register_profile(
        "without_deadline", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    settings.load_profile("without_deadline")

def pytest_configure(config):
    config.addinivalue_line("markers", "semantics: native, interpreted and replayed execution must agree")

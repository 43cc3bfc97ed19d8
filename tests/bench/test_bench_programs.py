"""The benchmark programs give their known results, natively and in our loop, and the bench measures what it says."""

import gc
import importlib.util
import itertools
import json
import types
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "interp.py"


def load_bench():
    spec = importlib.util.spec_from_file_location("alternator_bench_interp", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bench = load_bench()
KNOWN_RESULTS = [
    pytest.param(name, n, expected, id=f"{name}-{n}")
    for name in bench.PROGRAMS
    for n, expected in bench.load_program(name).EXPECTED.items()
]


def find_all_functions(program):
    """Find the program's functions by another way than the bench does: ask the collector, also for nested ones."""
    return [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__module__ == program.__name__]


def is_specialised(function):
    return function.__code__._co_code_adaptive != function.__code__.co_code


def slow_down(monkeypatch):
    """Replace the clock by one that says 50 ms for every run, so that the bench is content with n = 1."""
    readings = itertools.count()
    monkeypatch.setattr(bench.time, "process_time", lambda: next(readings) * 0.05)


def test_every_program_has_known_results():
    assert {parameters.values[0] for parameters in KNOWN_RESULTS} == set(bench.PROGRAMS)
    assert {path.stem for path in bench.PROGRAMS_DIR.glob("*.py")} == set(bench.PROGRAMS)


@pytest.mark.parametrize("name, n, expected", KNOWN_RESULTS)
def test_native_result_is_known_one(name, n, expected):
    assert bench.load_program(name).run(n) == expected


@pytest.mark.parametrize("name, n, expected", KNOWN_RESULTS)
def test_interpreted_result_is_known_one(name, n, expected):
    import alternator  # here and not above: the native side can be tested without the extension

    assert alternator.interpret(bench.load_program(name).run)(n) == expected


@pytest.mark.parametrize("name", bench.PROGRAMS)
def test_handed_result_is_known_one(name):
    bench.verify_checksums(bench.load_program(name), bench.make_mode("handed"))


def test_modes_switch_hook_on_and_off():
    modes = [bench.make_mode(name) for name in bench.MODES]
    assert [(mode.hooked, mode.interprets) for mode in modes] == [(False, False), (True, False), (True, True)]
    for mode in (*modes, *reversed(modes)):
        bench.check_mode(mode)


@pytest.mark.parametrize("name", bench.PROGRAMS)
def test_renewed_code_is_not_specialised(name):
    program = bench.load_program(name)
    expected = program.run(3)
    program.run(3)
    functions = find_all_functions(program)
    assert any(map(is_specialised, functions))
    bench.renew_code(program)
    assert not any(map(is_specialised, functions))
    assert program.run(3) == expected


@pytest.mark.parametrize("name", bench.PROGRAMS)
def test_interpreted_code_is_not_run_by_cpython(name):
    """CPython's loop specialises what it runs and ours does not: that tells whose time is measured."""
    import alternator

    program = bench.load_program(name)
    bench.renew_code(program)
    functions = find_all_functions(program)
    alternator.interpret(program.run)(3)
    assert not any(map(is_specialised, functions))
    program.run(3)
    program.run(3)
    assert any(map(is_specialised, functions))


def test_wrong_result_is_an_error(monkeypatch, capsys):
    slow_down(monkeypatch)
    program = bench.load_program("richards")
    monkeypatch.setattr(program, "EXPECTED", {1: (0, 0)})
    assert bench.main(["--native-only", "--only", "richards"]) == 1
    assert "is (2322, 928), not (0, 0)" in capsys.readouterr().err


def test_mode_without_its_hook_is_an_error():
    native = bench.make_mode("native")
    with pytest.raises(bench.BenchError, match="the hook is off"):
        bench.check_mode(native._replace(hooked=True))
    with pytest.raises(bench.BenchError, match="our loop is not in use"):
        bench.check_mode(native._replace(interprets=True))


def test_report_has_what_was_measured(monkeypatch, tmp_path, capsys):
    slow_down(monkeypatch)
    path = tmp_path / "report.json"
    assert bench.main(["--native-only", "--repeat", "2", "--only", "calls", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert list(report["programs"]) == ["calls"]
    assert report["programs"]["calls"]["checksum"] == list(bench.load_program("calls").EXPECTED[1])
    assert report["programs"]["calls"]["best_ms"] == {"native": 50.0}
    assert len(report["programs"]["calls"]["ms"]["native"]) == 2 * bench.RUNS
    assert "calls" in capsys.readouterr().out


def test_ratio_is_of_best_runs():
    result = bench.Result("calls", 1, None, {"native": [2.0, 1.0, 4.0], "interpreted": [9.0, 1.5]})
    assert result.ratio("interpreted") == 1.5
    halved = bench.Result("nbody", 1, None, {"native": [1.0], "interpreted": [6.0]})
    modes = [bench.make_mode("native")._replace(name=name) for name in ("native", "interpreted")]
    assert bench.average_ratios([result, halved], modes) == {"interpreted": pytest.approx(3.0)}

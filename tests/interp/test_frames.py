"""Frames, tracebacks and memory of interpreted code, as other parts of the runtime see them.

A scenario is run natively and interpreted and must give the same; what that is is asserted as well where it is short.
"""

import faulthandler
import gc
import inspect
import os
import sys
import tempfile
import threading
import traceback
import warnings
import weakref

import pytest

import alternator

from .outcome import describe_difference, record
from .programs import collect_programs
from .test_runtime import PATIENCE, check_both

pytestmark = pytest.mark.semantics


# ---- frames and tracebacks seen from outside


def test_frame_chain():
    def scenario():
        def names():
            frame, found = sys._getframe(1), []
            while frame is not None and frame.f_code is not scenario.__code__:
                found.append((frame.f_code.co_name, frame.f_lineno))
                frame = frame.f_back
            return found

        class Thing:
            @property
            def prop(self):
                return names()

            def __eq__(self, other):
                return names()

            def __iter__(self):
                yield names()

        def middle():
            return [names(), Thing().prop, Thing() == 1, *Thing(), sorted([1], key=lambda _: collected.append(names()))]

        collected = []
        return middle(), collected

    assert len(check_both(scenario)[0]) == 5


def test_inspect_and_traceback_modules():
    def scenario():
        def inner():
            stack = [(entry.function, entry.lineno, entry.code_context[0].strip()) for entry in inspect.stack()[:3]]
            lines = [line.splitlines()[1].strip() for line in traceback.format_stack()[-2:]]
            return stack, lines, inspect.currentframe().f_code.co_name

        def outer():
            return inner()

        stack, lines, name = outer()
        return stack[:2], lines[:1], name

    assert check_both(scenario)[2] == "inner"


def test_warnings_stacklevel():
    def scenario():
        def warn(level):
            warnings.warn(f"level {level}", stacklevel=level)

        def outer():
            warn(1)
            warn(2)
            [warn(2) for _ in range(1)]
            sorted([1], key=lambda _: warn(2))

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outer()
        return [(str(w.message), w.lineno, os.path.basename(w.filename)) for w in caught]

    assert len(check_both(scenario)) == 4


def test_warning_registry_of_the_module():
    def scenario():
        namespace = {"__name__": "some_module", "warnings": warnings}
        exec("def f():\n    warnings.warn('once')\n", namespace)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                namespace["f"]()
        return len(caught), "__warningregistry__" in namespace

    assert check_both(scenario) == (1, True)


def test_uncaught_traceback_text():
    def scenario():
        def outer():
            return inner(
                1,
            )

        def inner(n):
            return {"a": n}["b"]["c"]

        try:
            outer()
        except KeyError as error:
            entries = traceback.extract_tb(error.__traceback__)[1:]
            return [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in entries], "".join(
                traceback.format_list(entries)
            )

    assert "^" in check_both(scenario)[1]


def test_faulthandler_names_the_frames():
    def scenario():
        def outer():
            return inner()

        def inner():
            with tempfile.TemporaryFile() as file:
                sorted([1], key=lambda _: faulthandler.dump_traceback(file, all_threads=False))
                file.seek(0)
                return file.read().decode().splitlines()

        lines = outer()
        end = next(index for index, line in enumerate(lines) if line.endswith("in scenario"))
        return [line.strip() for line in lines[1 : end + 1]]

    assert [line.rsplit(" ", 1)[1] for line in check_both(scenario)] == ["<lambda>", "inner", "outer", "scenario"]


def test_frames_of_another_thread():
    def scenario():
        waiting, done = threading.Event(), threading.Event()

        def outer():
            inner()

        def inner():
            waiting.set()
            done.wait(PATIENCE)

        thread = threading.Thread(target=alternator.interpret(outer) if alternator.is_interpreting() else outer)
        thread.start()
        waiting.wait(PATIENCE)
        frame, found = sys._current_frames()[thread.ident], []
        while frame is not None:
            if frame.f_code.co_filename == __file__:
                found.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        done.set()
        thread.join()
        return found

    assert [name for name, _ in check_both(scenario)] == ["inner", "outer"]


def test_coroutine_origin():
    def scenario():
        async def coroutine():
            pass

        def make():
            return coroutine()

        before = sys.get_coroutine_origin_tracking_depth()
        sys.set_coroutine_origin_tracking_depth(2)
        try:
            made = make()
            origin = [(line, name) for _, line, name in made.cr_origin]
            made.close()
            return origin
        finally:
            sys.set_coroutine_origin_tracking_depth(before)

    assert [name for _, name in check_both(scenario)] == ["make", "scenario"]


# ---- memory


COLLECTING = ("callbacks.finaliser_in_cycle", "generators.finalised_by_collector", "lifetime.class_namespace_dies")


@pytest.mark.parametrize("threshold", [1, 7])
def test_collections_at_any_allocation(threshold):
    """The collector visits running frames all the time: what is on the value stack must be alive and counted right."""

    def run_collecting(fn, *args):
        before = gc.get_threshold()
        gc.set_threshold(threshold, 1, 1)
        gc.enable()
        try:
            return alternator.interpret(fn)(*args)
        finally:
            gc.disable()
            gc.set_threshold(*before)

    gc.collect()
    gc.freeze()
    try:
        for name, program in collect_programs().items():
            if name not in COLLECTING and not name.startswith("coroutines.asyncio"):
                native, collected = record(program), record(program, run=run_collecting)
                assert collected == native, f"{name}:\n" + describe_difference(native, collected)
    finally:
        gc.unfreeze()


def test_collector_sees_running_frames():
    """Objects held only by the value stack of an interpreted frame survive a collection."""

    def scenario():
        class Node:
            pass

        def make():
            node = Node()
            node.me = node
            return node

        def look(node):
            gc.collect()
            return node.me is node

        return [
            look(make()),
            [make(), gc.collect() >= 0, make()][0].me is not None,
            all(look(n) for n in (make(), make())),
        ]

    assert check_both(scenario) == [True, True, True]


def test_weak_references_and_finalisers():
    def scenario():
        log = []

        class Thing:
            def __init__(self, name):
                self.name = name

            def __del__(self):
                log.append(("del", self.name, sys._getframe(1).f_code.co_name))

        def use():
            thing = Thing("local")
            ref = weakref.ref(thing, lambda r: log.append(("dead", sys._getframe(1).f_code.co_name)))
            del thing
            Thing("temporary")
            return ref()

        use()
        [Thing(i) for i in range(2)].clear()
        return log

    assert len(check_both(scenario)) == 5


def test_finaliser_between_set_error_and_handler():
    """A finaliser that runs while an exception is on its way, and catches one of its own, must not disturb it."""

    def scenario():
        class Noisy:
            def __del__(self):
                try:
                    {}["noise"]
                except KeyError:
                    pass
                sorted([2, 1], key=lambda x: -x)

        def fail():
            noisy = [Noisy() for _ in range(3)]
            return [Noisy(), Noisy(), len(noisy), 1 // 0]

        try:
            fail()
        except ZeroDivisionError as error:
            error.__traceback__.tb_next.tb_frame.clear()
            return str(error), repr(error.__context__)

    assert check_both(scenario) == ("integer division or modulo by zero", "None")

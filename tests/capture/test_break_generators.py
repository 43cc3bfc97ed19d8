"""Breaks in generators, behind which they go on; managers made of generators."""

import contextlib

import pytest

from capture.breaking import Programs, places_of, stop

pytestmark = pytest.mark.capture

programs = Programs()


@programs.add(3)
def generator_that_is_passed_on(x):
    def generate(x):
        for i in range(4):
            x = x + i
            yield x * 2

    generator = generate(x)
    a = next(generator)
    stop()
    b = next(generator) + a
    stop()
    return b + next(generator), list(generator)


@programs.add(1)  # send() resumes the generator from C code: it runs for real
def generator_that_is_sent_to(x):
    def generate(x):
        got = yield x
        while True:
            x = x + got
            stop()
            got = yield x

    generator = generate(x)
    next(generator)
    total = generator.send(1) + generator.send(2)
    generator.close()
    return total


@programs.add(2)
def generator_that_is_thrown_into(x):
    def generate(x):
        while True:
            try:
                x = x + 1
                yield x
            except ValueError:
                stop()
                x = x * 2

    generator = generate(x)
    a = next(generator)
    b = generator.throw(ValueError("a"))
    return a + b + next(generator)


@programs.add(2)
def generator_that_came_through_a_break(x):
    log = []

    def generate(x):
        try:
            while True:
                got = yield x
                x = x + got
        finally:
            log.append("closed")

    generator = generate(x)
    total = next(generator) * 2
    stop()
    total = total + generator.send(1) + generator.send(2)
    generator.close()
    try:
        next(generator)
    except StopIteration:
        log.append("at its end")
    return total, log


@contextlib.contextmanager
def managed(x, log):
    log.append("in")
    x = x + 1
    try:
        yield x
        x = x * 2
    except ValueError as error:
        log.append(error.args)
        x = x * 3
    finally:
        log.append(x)


@programs.add(2)
def in_a_manager_made_of_a_generator(x):
    log = []
    with managed(x, log) as y:
        y = y * 2
        stop()
        y = y + 1
    return y + log[-1], log


@programs.add(2)
def in_two_managers_made_of_generators(x):
    log = []
    with managed(x, log) as y, managed(y, log) as z:
        stop()
        y = y + z
    return y + log[-1], log


@programs.add(2)
def in_a_manager_that_swallows(x):
    log = []
    with managed(x, log) as y:
        y = y * 2
        stop()
        y = y + 1
        raise ValueError("swallowed")
    return y + log[-1], log


@programs.add(2)
def in_a_manager_that_lets_through(x):
    log = []
    try:
        with managed(x, log) as y, managed(y, log):
            y = y * 2
            stop()
            y = y + 1
            raise KeyError("let through")
    except KeyError as error:
        return y + log[-1], log, places_of(error)


@programs.add(2)
def in_a_manager_in_a_generator(x):
    log = []

    def generate(x):
        with managed(x, log) as y:
            for i in range(2):
                y = y + 1
                yield y
            stop()
            yield y * 2

    for value in generate(x):
        x = x + value
    return x, log


def raise_again_behind_a_break(x):
    try:
        raise ValueError("first")
    except ValueError:
        x = x + 2
        stop()
        x = x * 2
        raise


@programs.add(2)
def exception_through_a_handler_in_a_generator(x):
    def generate(x):
        try:
            raise_again_behind_a_break(x + 1)
        except KeyError:
            pass
        yield x

    try:
        for value in generate(x):
            x = x + value
    except ValueError as error:
        return x + 1, places_of(error)


@programs.add(3)
def generator_in_a_generator(x):
    def inner(x):
        x = x + 1
        stop()
        yield x
        yield x * 2
        return x * 3

    def outer(x):
        result = yield from inner(x)
        stop()
        yield result + 1

    total = x
    for value in outer(x):
        total = total + value
    return total


def generate_and_close(x, log):
    try:
        yield x + 1
        yield x + 2
    finally:
        log.append("closed")


@programs.add(3)  # its end runs code, there
def generator_that_is_left_behind_a_break(x):
    log = []

    for value in generate_and_close(x, log):
        x = x + value
        stop()
        x = x * 2
        break
    log.append("left")
    return x + 1, log


@programs.add(3)
def generator_that_an_exception_leaves_behind_a_break(x):
    log = []

    def consume(x):
        for value in generate_and_close(x, log):
            x = x + value
            stop()
            x = x * 2
            raise ValueError(len(log))

    try:
        consume(x)
    except ValueError as error:
        log.append("caught")
        return x + 1, log, error.args


@programs.add(2)
def generator_that_has_ended(x):
    def generate():
        yield x + 1
        yield x + 2

    kept = generate()
    total = sum(kept)
    stop()
    return total * 2, list(kept), kept.gi_frame, kept.__name__, next(kept, "over")


@pytest.mark.parametrize("name", programs)
def test_programs(name):
    programs.check(name)

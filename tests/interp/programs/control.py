"""Control flow: branches, loops with else, break and continue, assert, and conditional expressions."""
# ruff: noqa


def if_chains(log):
    def classify(n):
        if n < 0:
            return "negative"
        elif n == 0:
            return "zero"
        elif n < 10 and n % 2:
            return "small odd"
        else:
            return "other"

    return [classify(n) for n in (-1, 0, 3, 4, 20)]


def loop_else(log):
    for target in (2, 9):
        for n in range(5):
            if n == target:
                log.append(("found", n))
                break
        else:
            log.append(("missing", target))
    n = 3
    while n:
        n -= 1
    else:
        log.append("while done")
    while True:
        break
    else:
        log.append("never")


def nested_break_continue(log):
    for a in range(4):
        if a == 1:
            continue
        for b in range(4):
            if b == a:
                break
            if b % 2:
                continue
            log.append((a, b))
        else:
            log.append(("no break", a))
        if a == 3:
            break
    return a, b


def while_with_complex_conditions(log):
    a, b = 0, 10
    while a < 5 and not b < 3 or a == 7:
        a += 1
        b -= 2
        if a == 4:
            a = 7
            b = 10
        if a > 7:
            break
        log.append((a, b))
    return a, b


def loop_over_changing_list(log):
    data = [1, 2, 3]
    for item in data:
        log.append(item)
        if len(data) < 7:
            data.append(item * 10)
        if item == 2:
            data.remove(1)
    return data


def loop_over_changing_dict(log):
    data = {"a": 1, "b": 2}
    for key in data:
        log.append(key)
        data[key + "x"] = 1


def loop_variable_is_a_target(log):
    class Box:
        pass

    box, table = Box(), [0, 0]
    for box.item in range(3):
        log.append(box.item)
    for table[0], (first, *table[1:]) in [(1, "abc"), (2, "de")]:
        log.append((list(table), first))
    return box.item, table


def loop_over_iterables(log):
    for source in (
        [1],
        (2,),
        {3},
        {4: 5},
        "6",
        b"7",
        range(8, 9),
        iter([9]),
        {10: 1}.items(),
        enumerate("x"),
        zip([1], [2]),
    ):
        for value in source:
            log.append(value)


def loop_over_non_iterable(log):
    for x in 5:
        log.append(x)


def loop_with_bad_iter(log):
    class Bad:
        def __iter__(self):
            return 5

    class NoNext:
        __iter__ = None

    for bad in (Bad(), NoNext()):
        try:
            for x in bad:
                pass
        except TypeError as e:
            log.append(str(e))


def loop_with_own_iterator(log):
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            log.append("iter")
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration("ignored value")
            self.n -= 1
            return self.n

    return [x for x in Count(3)], list(Count(2)), sum(Count(4))


def iterator_raises_in_mid_loop(log):
    class Failing:
        def __iter__(self):
            return self

        def __next__(self):
            log.append("next")
            if len(log) > 3:
                raise LookupError("ran out")
            return len(log)

    for x in Failing():
        log.append(x)


def loop_over_getitem(log):
    class Old:
        def __getitem__(self, i):
            log.append(i)
            if i == 3:
                raise IndexError
            return i * i

    return list(Old()), [x for x in Old()], 4 in Old(), max(*Old())


def iterator_stops_and_goes_on(log):
    """An exhausted list iterator stays exhausted; one with a sentinel stops at it."""
    data = [1]
    it = iter(data)
    log.append(list(it))
    data.append(2)
    log.append(list(it))
    source = iter([5, 6, 0, 7])
    log.append(list(iter(source.__next__, 0)))
    return list(source)


def conditional_expressions(log):
    def say(x):
        log.append(x)
        return x

    return [say("a") if say(1) else say("b"), say("c") if say(0) else say("d"), (1 if [] else 2 if () else 3)]


def assert_statement(log):
    assert log == []
    assert True, log.append("not evaluated")
    try:
        assert not 1, ("message", 2)
    except AssertionError as e:
        log.append(e.args)
    assert log == [], f"log has {len(log)} entries"


def assert_without_message(log):
    value = 3
    assert value == 4


def long_jumps(log):
    """A body long enough that its jumps need EXTENDED_ARG."""
    lines = "\n".join(f"        x = (x * 3 + {i}) % 1009 if x != {i} else x + 1" for i in range(120))
    loop = f"    for i in range(3):\n        if x < 0: break\n{lines}\n    else:\n        return x\n"
    source = f"def f(x):\n{loop}    return -x\n"
    namespace = {}
    exec(source, namespace)
    return namespace["f"](1), namespace["f"](-5)


def many_constants_and_names(log):
    """Arguments above 255: constants, names, locals and globals."""
    body = "\n".join(f"    v{i} = {i * 1001} + g{i}" for i in range(300))
    total = " + ".join(f"v{i}" for i in range(300))
    namespace = {f"g{i}": i for i in range(300)}
    exec(f"def f():\n{body}\n    return {total}\n", namespace)
    return namespace["f"]()


def large_displays(log):
    items = [len(log), *range(40), *(x for x in "ab"), *{"k": 1}]
    table = {"a": 1, **{"b": 2}, "a": 3, **dict(zip("xy", range(2)))}
    return items, table, {*items[:3], 99}, (*items[:2], *"z"), [*[], *()], {**{}, **{}}


def display_errors(log):
    cases = [
        lambda: [*5],
        lambda: {**5},
        lambda: {**[1]},
        lambda: {*None},
        lambda: {[]: 1},
        lambda: {[]},
        lambda: (*1,),
    ]
    for case in cases:
        try:
            case()
        except TypeError as e:
            log.append(str(e))
    return [*[1], *log[0], *3]


def recursion(log):
    def ackermann(m, n):
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))

    return ackermann(2, 2)


def mutual_recursion_with_error(log):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        if n < 0:
            raise ValueError(n)
        return even(n - 1) if n else even(-1 - n)

    log.append(even(6))

    def even(n):
        return 1 // n if n == 0 else odd(n - 1)

    return odd(5)

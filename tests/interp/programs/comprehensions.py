"""List, set, dict and generator comprehensions."""
# ruff: noqa


def basic_kinds(log):
    data = range(6)
    log.append([x * x for x in data if x % 2])
    log.append({x % 3 for x in data})
    log.append({x: str(x) for x in data if x > 3})
    return list(x + 1 for x in data), tuple(x for x in "ab"), sum(x for x in data)


def nested_loops_and_conditions(log):
    return (
        [(a, b) for a in range(4) if a % 2 for b in range(a) if b != 1],
        [[row[i] for row in ((1, 2), (3, 4))] for i in range(2)],
        {a: {b: a * b for b in range(2)} for a in "xy"},
        [x for row in [[1, 2], [3], []] for x in row],
        [c for a, (b, *c) in [(1, "xyz"), (2, "w")]],
    )


def scope_of_loop_variable(log):
    x = "outer"
    inner = [x for x in range(3)]
    try:
        [never_leaks for never_leaks in range(2)]
        never_leaks
    except NameError as e:
        log.append(str(e))
    return x, inner, [x for _ in range(2)], (lambda: [x for x in x])()


def first_iterable_is_evaluated_outside(log):
    def source(name):
        log.append(name)
        return [1, 2]

    g = ((a, b) for a in source("first") for b in source("second"))
    log.append("made")
    return list(g)


def not_iterable(log):
    try:
        (x for x in 5)
    except TypeError as e:
        log.append(str(e))
    lazy = (y for x in [1] for y in x)
    log.append("made")
    return list(lazy)


def error_in_element(log):
    def check(x):
        log.append(x)
        return 10 // (3 - x)

    return {x: check(x) for x in range(5)}


def error_in_condition(log):
    return [x for x in (1, 2, "3") if x + 1]


def closures_inside(log):
    n = 10
    f = [lambda: (x, n) for x in range(3)]
    n = 20
    return [g() for g in f], [(lambda y: y + n)(x) for x in range(2)]


def with_walrus_and_calls(log):
    def slow(x):
        log.append(x)
        return x * 2

    pairs = [(y, y + 1) for x in range(4) if (y := slow(x)) > 2]
    return pairs, y


def dict_evaluation_order(log):
    def say(x):
        log.append(x)
        return x

    return {say(k): say(v) for k, v in [("a", 1), ("b", 2)]}


def dict_with_duplicate_and_unhashable_keys(log):
    log.append({k % 2: k for k in range(5)})
    return {[k]: 1 for k in range(2)}


def set_with_custom_equality(log):
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return 1

        def __eq__(self, other):
            log.append((self.n, other.n))
            return self.n % 2 == other.n % 2

    return len({Key(n) for n in range(4)})


def generator_consumed_partly(log):
    g = (log.append(x) or x for x in range(10))
    first = next(g), next(g)
    found = 4 in g
    rest = [x for x in g if x < 8]
    return first, found, rest, list(g)


def generator_in_call(log):
    def f(*args, key=None):
        return args, key

    return (
        f(*(x for x in range(3))),
        sum(x * x for x in range(4)),
        max((len(w) for w in ("a", "bbb")), default=0),
        dict((x, 1) for x in "ab"),
    )


def comprehension_in_class(log):
    class A:
        items = [1, 2]
        doubled = [i * 2 for i in items]
        try:
            wrong = [i * len(items) for i in items]
        except NameError as e:
            log.append(str(e))

    return A.doubled


def comprehension_with_yielding_source(log):
    def gen():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    return [(a, b) for a in gen() for b in gen()]


def deep_nesting(log):
    return [[[[a + b + c + d for a in range(2)] for b in range(2)] for c in range(2)] for d in range(2)]


def mutated_source(log):
    data = [1, 2, 3]
    return [data.append(x * 10) or x for x in data if len(data) < 6], data


def comprehension_inside_handler(log):
    try:
        raise ValueError([3, 4])
    except ValueError as e:
        values = [x * 2 for x in e.args[0]]
        nested = [str(e) for _ in range(2)]
    return values, nested


def conditional_elements(log):
    return (
        [x if x % 2 else -x for x in range(5)],
        [*(y for y in (1, 2) if y), *[z for z in "q"]],
        {**{k: 1 for k in "ab"}},
    )

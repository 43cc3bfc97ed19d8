"""Assignment targets and unpacking, with the exact messages of what does not fit."""
# ruff: noqa


def basic_targets(log):
    a, b = 1, 2
    a, b = b, a
    (c, [d, (e,)]) = [3, (4, [5])]
    [f] = "f"
    g = h = i = []
    g.append(1)
    x, y = y, z = 8, 9
    return a, b, c, d, e, f, h is i, x, y, z


def starred_targets(log):
    first, *rest = range(4)
    *init, last = "abc"
    a, *b, c = 1, 2
    d, (e, *f), *g = 1, "xyz", 2, 3
    [*everything] = {1: 2}
    *empty, only = [1]
    return first, rest, init, last, a, b, c, d, e, f, g, everything, empty, only


def many_starred(log):
    """EXTENDED_ARG in UNPACK_EX: the names behind the star are counted in its second byte."""
    before = ", ".join(f"a{i}" for i in range(255))
    after = ", ".join(f"z{i}" for i in range(300))
    namespace = {}
    exec(f"{before}, *middle, {after} = range(560)", namespace)
    return namespace["a254"], namespace["middle"], namespace["z0"], namespace["z299"]


def evaluation_order(log):
    def say(x):
        log.append(x)
        return x

    data = {}
    say(data)[say("a")], say(data)[say("b")] = say(1), say(2)
    i, data[i], (j, data[j]) = "i", 1, ("j", 2)
    return data, i, j


def swap_through_attributes_and_items(log):
    class Node:
        pass

    n = Node()
    n.a, n.b, items = 1, 2, [0, 1, 2]
    n.a, n.b = n.b, n.a
    items[0], items[2] = items[2], items[0]
    i = 0
    i, items[i] = 1, "at one"
    return n.a, n.b, items


def too_few_and_too_many(log):
    def two(source):
        a, b = source
        return a, b

    def three_or_more(source):
        a, b, c, *d = source
        return d

    for f in (two, three_or_more):
        for source in (
            (),
            (1,),
            [1],
            [1, 2, 3],
            "abc",
            {1},
            {1: 2, 3: 4, 5: 6},
            range(5),
            iter([1]),
            (x for x in "xyz"),
        ):
            try:
                log.append(f(source))
            except ValueError as e:
                log.append(str(e))
    x, y = 1, 2, 3


def not_iterable(log):
    def unpack(value):
        a, b = value

    def unpack_star(value):
        a, *b = value

    for f in (unpack, unpack_star):
        for value in (5, None, object, 1.5):
            try:
                f(value)
            except TypeError as e:
                log.append(str(e))
    a, b = len


def iterator_errors_pass(log):
    class Failing:
        def __iter__(self):
            log.append("iter")
            yield 1
            raise TypeError("from the iterator")

    class NotIterableInside:
        def __iter__(self):
            raise TypeError("no iteration today")

    try:
        a, b = NotIterableInside()
    except TypeError as e:
        log.append(str(e))
    a, b = Failing()


def stops_reading_in_time(log):
    def endless():
        n = 0
        while True:
            log.append(n)
            yield n
            n += 1

    try:
        a, b = endless()
    except ValueError as e:
        log.append(str(e))
    return len(log)


def partial_assignment_before_failure(log):
    class Refusing:
        def __setattr__(self, name, value):
            raise AttributeError(f"refused {name}")

    r = Refusing()
    try:
        a, r.x, b = 1, 2, 3
    except AttributeError as e:
        log.append((str(e), a))
    return b


def unpacking_specialised_shapes(log):
    """Lists, tuples and pairs at the same instruction."""

    def unpack(source):
        a, b = source
        return a, b

    seen = []
    for _ in range(12):
        for source in ((1, 2), [3, 4], "ab", {5: 0, 6: 0}, range(2)):
            seen.append(unpack(source))
    return seen[-5:]


def unpacking_in_for_and_comprehension(log):
    for i, (a, *b) in enumerate([(1, 2, 3), "xy", [9]]):
        log.append((i, a, b))
    return [a + b for a, b in zip("ab", "cd")], {k: v for (k, _), v in {("a", 1): 2}.items()}


def star_in_displays_and_returns(log):
    def f(*args):
        return *args, "end"

    def g():
        yield *range(2), "yielded"

    a = *range(3), *"ab"
    return a, f(1, 2), list(g()), [*a[:2], *f()], {**{"x": 1}, "y": 2}


def unpack_subscripted_star(log):
    class Show:
        def __getitem__(self, key):
            return key

    s, indices = Show(), (1, 2)
    return s[*indices, 3], s[*indices], s[0, *indices]


def dict_merge_and_update(log):
    class Logged(dict):
        def keys(self):
            log.append("keys")
            return super().keys()

    base = {"a": 1}
    merged = base | {"b": 2}
    base |= [("c", 3)]
    return merged, base, {**Logged(z=1), **base}

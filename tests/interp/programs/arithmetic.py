"""Operators on numbers and other built-in values, their overloads and their errors."""
# ruff: noqa

import operator


class _Money:
    """Knows its own additions, reflected ones and in-place ones, and logs which was taken."""

    def __init__(self, amount, log):
        self.amount, self.log = amount, log

    def __add__(self, other):
        self.log.append(("add", self.amount))
        return (
            NotImplemented
            if isinstance(other, str)
            else _Money(self.amount + getattr(other, "amount", other), self.log)
        )

    def __radd__(self, other):
        self.log.append(("radd", other))
        return _Money(self.amount + other, self.log)

    def __isub__(self, other):
        self.log.append(("isub", other))
        self.amount -= other
        return self

    def __neg__(self):
        return _Money(-self.amount, self.log)

    def __bool__(self):
        self.log.append(("bool", self.amount))
        return self.amount != 0

    def __index__(self):
        return self.amount


def integers(log):
    a, b = 17, -5
    log.append((a + b, a - b, a * b, a / b, a // b, a % b, a**3, a << 3, a >> 1, a & b, a | b, a ^ b))
    log.append((-a, +b, ~a, not a, divmod(a, b)))
    return [a**0, 0**0, (-2) ** 3, 2**-1]


def big_integers(log):
    x = 1
    for i in range(1, 30):
        x = x * i + (1 << i)
    log.append(x)
    return x // 12345678901, x % 12345678901, -x >> 3, x.bit_length(), x == x + 0


def floats(log):
    nan, inf = float("nan"), float("inf")
    log.append((0.1 + 0.2, -0.0, 0.0 * -1, inf - inf, nan, 1e308 * 10, 5e-324 / 2))
    return (nan == nan, nan != nan, nan < 1, inf > 1e308, 7.5 // 2, -7.5 // 2, -7.5 % 2, 2.0**0.5)


def complexes(log):
    z = 3 + 4j
    return z * z, z / (1 - 1j), -z, z**2, abs(z), z == 3 + 4j, +z


def mixed_types(log):
    return 1 + 2.0, True + True, 2 * "ab", "ab" * 2, [1] * 3, (1,) + (2,), 3 * [None], b"a" + b"b", "%s-%d" % ("x", 3)


def sums_of_strings(log):
    text = ""
    for i in range(20):
        text += str(i)
        if i % 7 == 3:
            other = text
            text += "!"
    log.append(other)
    return text


def matrix_product(log):
    class Vector(list):
        def __matmul__(self, other):
            return sum(a * b for a, b in zip(self, other))

        def __imatmul__(self, other):
            log.append("imatmul")
            return Vector(a * b for a, b in zip(self, other))

    v = Vector([1, 2, 3])
    dot = v @ Vector([4, 5, 6])
    v @= [2, 2, 2]
    return dot, list(v)


def overloads(log):
    m = _Money(5, log)
    total = sum([m, 3, m])
    total -= 2
    log.append(total.amount)
    log.append((m + 1).amount)
    log.append((1 + m).amount)
    return (-m).amount, [10, 11, 12, 13, 14, 15][m], not m, bool(m)


def overload_not_implemented(log):
    return _Money(1, log) + "x"


def reflected_priority_of_subclass(log):
    class Base:
        def __add__(self, other):
            return "Base.add"

        def __radd__(self, other):
            return "Base.radd"

    class Derived(Base):
        def __radd__(self, other):
            return "Derived.radd"

    class Plain(Base):
        pass

    return Base() + Derived(), Base() + Plain(), Derived() + Base(), 1 + Base()


def in_place_fallbacks(log):
    t = (1, 2)
    same = t
    t += (3,)
    n = 5
    n **= 2
    n //= 4
    n <<= 2
    n |= 1
    n ^= 3
    n &= 30
    n >>= 1
    n %= 7
    f = 2
    f /= 4
    data = same_list = [1]
    data += (2, 3)
    data *= 2
    return t, same, n, f, data, data is same_list


def in_place_on_attribute_and_item(log):
    class Box:
        value = 10

        def __setattr__(self, name, value):
            log.append((name, value))
            object.__setattr__(self, name, value)

    class Items(dict):
        def __getitem__(self, key):
            log.append(("get", key))
            return super().__getitem__(key)

        def __setitem__(self, key, value):
            log.append(("set", key, value))
            super().__setitem__(key, value)

    box, items = Box(), Items(a=1)
    box.value += 1
    box.value *= 2
    items["a"] += 5
    return Box.value, vars(box), dict.copy(items)


def in_place_on_tuple_item(log):
    """The list is extended although the assignment to the tuple fails."""
    t = ([1], 2)
    log.append(t)
    t[0] += [2]


def in_place_wrong_result(log):
    class Odd:
        def __iadd__(self, other):
            return "replaced"

    odd = Odd()
    odd += 1
    return odd


def divide_by_zero(log):
    a, b = 10, 0
    for operation in (operator.truediv, operator.floordiv, operator.mod, divmod):
        try:
            operation(a, b)
        except ZeroDivisionError as e:
            log.append(e.args)
    return (a + 1) / (b * 2) + 3


def negative_shift(log):
    return 1 << -1


def unsupported_operands(log):
    cases = [
        lambda: 1 + "a",
        lambda: "a" + 1,
        lambda: [] + (),
        lambda: None - 1,
        lambda: {} | 1,
        lambda: -"a",
        lambda: ~1.5,
        lambda: 1 @ 2,
        lambda: object() ** 2,
        lambda: "%d" % "x",
        lambda: "a" * "b",
        lambda: 1 in 2,
        lambda: [1] < 1,
        lambda: len(5),
    ]
    for case in cases:
        try:
            case()
        except TypeError as e:
            log.append(str(e))
    x = {}
    x -= 1


def power_with_modulus(log):
    return pow(3, 200, 13), pow(3, -1, 7), pow(2.0, 3)


def comparison_chains(log):
    def say(value):
        log.append(value)
        return value

    results = [say(1) < say(2) < say(3), say(3) < say(2) < say(1), say(1) <= say(1) != say(2) > say(0)]
    results.append(say(1) in [say(1)] in [[1]])
    results.append(None is None is not False)
    return results


def comparison_of_rich_values(log):
    """Comparisons may return anything; `and`, `not` and chains must use the value's truth, once."""

    class Rich:
        def __lt__(self, other):
            log.append("lt")
            return Verdict()

        __gt__ = __eq__ = __lt__

    class Verdict:
        def __bool__(self):
            log.append("bool")
            return False

    r = Rich()
    value = r < 1
    chained = r < 1 < 2
    return type(value).__name__, type(chained).__name__, not (r == 3), type(1 < r).__name__


def truth_errors(log):
    class Bad:
        def __bool__(self):
            return 7

    class BadLen:
        def __len__(self):
            return -1

    for value in (Bad(), BadLen()):
        try:
            if value:
                log.append("true")
        except (TypeError, ValueError) as e:
            log.append((type(e).__name__, str(e)))
    return 1 if Bad() else 2


def boolean_operators_return_operands(log):
    def say(value):
        log.append(value)
        return value

    return [
        say(0) or say("") or say("x"),
        say(1) and say([]) and say(2),
        not say(""),
        say(0) or say(None),
        say(1) and say(2) or say(3),
    ]


def identity_and_membership(log):
    a, b = [], []
    nan = float("nan")
    return a is b, a is not b, a == b, nan in [nan], nan == nan, "ell" in "hello", 3 not in {1, 2}, 2 in {2: 3}


def membership_fallbacks(log):
    class ByIter:
        def __iter__(self):
            log.append("iter")
            return iter([1, 2])

    class ByItem:
        def __getitem__(self, index):
            log.append(index)
            return [10, 20, 30][index]

    class Refusing:
        __contains__ = None

    found = [2 in ByIter(), 20 in ByItem(), 99 in ByItem()]
    try:
        1 in Refusing()
    except TypeError as e:
        found.append(str(e))
    return found


def subscripts_and_slices(log):
    class Show:
        def __getitem__(self, key):
            return key

        def __setitem__(self, key, value):
            log.append(("set", key, value))

        def __delitem__(self, key):
            log.append(("del", key))

    s = Show()
    s[1:2] = 3
    s[..., ::2] = 4
    del s[5:], s["k"]
    s[0] += (1,) if False else 5
    data = list(range(10))
    data[2:5] = "xyz"
    data[::3] = [0] * 4
    del data[1::2]
    return s[1], s[1:2], s[::], s[1:2:3, 4], s[()], s[:, None], data, "abcdef"[-3:-1], (1, 2, 3)[::-1]


def subscript_errors(log):
    pair, five, text, none = (1,), 5, "abc", None
    cases = [
        lambda: [1][5],
        lambda: pair["a"],
        lambda: {}["missing"],
        lambda: five[0],
        lambda: text[1.5],
        lambda: [][:"x"],
        lambda: none["x"],
        lambda: int["x"],
        lambda: list[int],
    ]
    for case in cases:
        try:
            log.append(repr(case()))
        except Exception as e:
            log.append((type(e).__name__, str(e)))
    values = [1, 2, 3]
    values[::2] = [1]


def store_subscript_error_columns(log):
    table = {"a": (1, 2)}
    table["a"][0] = table["a"][1] + len(log)


def index_protocol(log):
    class Index:
        def __index__(self):
            log.append("index")
            return 2

    data = [10, 20, 30, 40]
    data[Index()] = 99
    return data[Index()], data[: Index()], list(range(Index())), bytes(Index()), operator.index(Index())

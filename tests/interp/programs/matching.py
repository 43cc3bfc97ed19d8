"""The match statement: every kind of pattern, guards, and the errors of class patterns."""
# ruff: noqa

import collections
import dataclasses
import enum


@dataclasses.dataclass
class _Point:
    x: int
    y: int


class _Color(enum.Enum):
    RED = 1
    BLUE = 2


def literal_patterns(log):
    def what(value):
        match value:
            case 0:
                return "zero"
            case 1 | 2 | 3:
                return "few"
            case -1:
                return "minus one"
            case 1.5:
                return "float"
            case 2 + 3j:
                return "complex"
            case "text" | b"bytes":
                return "texts"
            case None:
                return "none"
            case True | False:
                return "bool"
            case _:
                return "other"

    return [what(v) for v in (0, 0.0, False, True, 1, 2, 3.0, -1, 1.5, 2 + 3j, "text", b"bytes", None, [], "x")]


def value_patterns(log):
    class Config:
        limit = 10

    def what(value):
        match value:
            case _Color.RED:
                return "red"
            case Config.limit:
                return "limit"
            case _Color.BLUE.value:
                return "two"
        return None

    log.append([what(v) for v in (_Color.RED, _Color.BLUE, 10, 2, 1)])
    Config.limit = "changed"
    return what("changed"), what(10)


def value_pattern_uses_equality(log):
    class Loud:
        def __eq__(self, other):
            log.append(("eq", other))
            return other == 3

    match Loud():
        case 1:
            return "one"
        case 2:
            return "two"
        case 3:
            return "three"


def sequence_patterns(log):
    def what(value):
        match value:
            case []:
                return "empty"
            case [x]:
                return "one", x
            case [x, y]:
                return "two", x, y
            case [1, *rest]:
                return "starts with 1", rest
            case [*_, "end"]:
                return "ends"
            case [first, *middle, last]:
                return first, middle, last
        return "no sequence"

    values = ([], [5], (1, 2), [1, 2, 3, 4], ["a", "b", "end"], range(3), "ab", b"abc", {1, 2}, {1: 2}, iter([1]))
    log.append([what(v) for v in values])
    return what(collections.deque([1, 2, 3]))


def nested_sequences(log):
    def what(value):
        match value:
            case [[a, b], [c, [d, *e]]]:
                return a, b, c, d, e
            case (_, (_, *_), *_):
                return "loose"
            case [[*x], [*y]]:
                return x, y
        return None

    return [what(v) for v in ([[1, 2], [3, [4, 5, 6]]], [1, (2, 3), 4], [[], []], [1, 2])]


def sequence_protocol(log):
    class Seq(collections.abc.Sequence):
        def __init__(self, items):
            self.items = items

        def __len__(self):
            log.append("len")
            return len(self.items)

        def __getitem__(self, i):
            log.append(("item", i))
            return self.items[i]

    class Listish(list):
        pass

    match Seq("abc"):
        case [a, b]:
            log.append("two")
        case ["a", *rest]:
            log.append(rest)
    match Seq("abcdef"):
        case [first, *_, last]:
            log.append((first, last))
    match Listish([1]):
        case [x]:
            return x


def mapping_patterns(log):
    def what(value):
        match value:
            case {"kind": "circle", "r": r}:
                return "circle", r
            case {"kind": kind, **rest}:
                return kind, rest
            case {1: _, "k": {"nested": [x, *_]}}:
                return x
            case {_Color.RED.value: one}:
                return "enum key", one
            case {}:
                return "any mapping"
        return "no mapping"

    values = (
        {"kind": "circle", "r": 2, "z": 0},
        {"kind": "square", "side": 1},
        {1: 0, "k": {"nested": [7]}},
        {1: "x"},
        {},
        [],
        None,
    )
    return [what(v) for v in values]


def mapping_with_defaults_and_own_get(log):
    d = collections.defaultdict(int, a=1)
    match d:
        case {"missing": x}:
            log.append("wrong")
        case {"a": x, **rest}:
            log.append((x, rest))

    class Own(collections.abc.Mapping):
        def __getitem__(self, key):
            raise AssertionError("get is used")

        def get(self, key, default=None):
            log.append(("get", key))
            return {"k": 5}.get(key, default)

        def keys(self):
            log.append("keys")
            return ["k", "q"]

        def __iter__(self):
            return iter(["k"])

        def __len__(self):
            return 1

    match Own():
        case {"k": x, "z": y}:
            log.append("wrong")
        case {"k": x}:
            log.append(x)
    return list(d.items())


def mapping_duplicate_keys(log):
    class Keys:
        a = b = "same"

    match {"same": 1}:
        case {Keys.a: x, Keys.b: y}:
            return x, y


def class_patterns(log):
    class Sub(_Point):
        pass

    def what(value):
        match value:
            case _Point(0, 0):
                return "origin"
            case _Point(x=0, y=y):
                return "on y", y
            case _Point(x, y=0):
                return "on x", x
            case Sub(x, y):
                return "sub", x, y
            case _Point():
                return "point"
            case str(text) | bytes(text):
                return text
            case int(n) if n > 5:
                return "big", n
            case bool() | int() | float(_):
                return "number"
            case list([a, *_]):
                return "list of", a
            case dict({"k": v}):
                return v
            case object(missing=1):
                return "never"
        return None

    values = (
        _Point(0, 0),
        _Point(0, 3),
        _Point(3, 0),
        Sub(1, 2),
        _Point(1, 2),
        "s",
        b"b",
        9,
        3,
        True,
        1.5,
        [4],
        [],
        {"k": "v"},
        {},
    )
    return [what(v) for v in values]


def class_pattern_attributes(log):
    class Lazy:
        __match_args__ = ("a", "b")

        def __getattr__(self, name):
            log.append(name)
            if name == "c":
                raise AttributeError(name)
            return name.upper()

    match Lazy():
        case Lazy(c=1):
            log.append("wrong")
        case Lazy("A", "X"):
            log.append("wrong")
        case Lazy(first, b="B", d=last):
            return first, last


def class_pattern_attribute_raises(log):
    class Bad:
        @property
        def p(self):
            raise ValueError("property")

    match Bad():
        case Bad(p=1):
            return "wrong"


def match_args_errors(log):
    class NotTuple:
        __match_args__ = ["x"]

    class NotStrings:
        __match_args__ = (1,)

    class Doubled:
        __match_args__ = ("x", "x")
        x = 1

    class Plain:
        pass

    class One:
        __match_args__ = ("x",)
        x = 1

    def not_tuple():
        match NotTuple():
            case NotTuple(1):
                pass

    def not_strings():
        match NotStrings():
            case NotStrings(1):
                pass

    def doubled():
        match Doubled():
            case Doubled(1, 1):
                pass

    def doubled_by_keyword():
        match One():
            case One(1, x=1):
                pass

    def too_many():
        match One():
            case One(1, 2):
                pass

    def none_accepted():
        match Plain():
            case Plain(1):
                pass

    def too_many_builtin():
        match 5:
            case int(1, 2):
                pass

    def not_a_class():
        thing = len
        match 5:
            case thing():
                pass

    for case in (
        not_tuple,
        not_strings,
        doubled,
        doubled_by_keyword,
        too_many,
        none_accepted,
        too_many_builtin,
        not_a_class,
    ):
        try:
            log.append(case())
        except TypeError as e:
            log.append(str(e))
    not_a_class()


def class_pattern_instance_check(log):
    class Meta(type):
        def __instancecheck__(cls, value):
            log.append(("check", value))
            return value == 5

    class Five(metaclass=Meta):
        pass

    def what(value):
        match value:
            case Five():
                return "five"
            case _:
                return "other"

    return what(5), what(6)


def guards(log):
    def say(x):
        log.append(x)
        return x

    def what(value):
        match value:
            case [a, b] if say(a > b):
                return "descending"
            case [a, b] if a == b:
                return "equal"
            case [a, *_] if (n := len(value)) > 2:
                return n
            case _ if say(False):
                return "never"
        return a, b

    return [what(v) for v in ([2, 1], [1, 1], [1, 2, 3], [1, 2])]


def guard_raises(log):
    match [1, 0]:
        case [a, b] if a / b:
            return "wrong"


def captures_survive_failed_patterns(log):
    match [1, 2, 3]:
        case [a, b]:
            log.append("wrong")
        case [a, b, 4]:
            log.append("wrong")
        case [x, y, z] if x > y:
            log.append("wrong")
    try:
        return x, y, z, a
    except UnboundLocalError as e:
        log.append(str(e))
    return x


def or_and_as_patterns(log):
    def what(value):
        match value:
            case [("a" | "b") as letter, (1 | 2 | 3) as digit]:
                return letter, digit
            case ([x] | {"x": x} | _Point(x, 0)) as whole:
                return x, type(whole).__name__
            case (int() | float()) as number:
                return number * 2
            case [[_, *_] as inner, *_] as outer:
                return inner, len(outer)

    return [what(v) for v in (["a", 2], ["c", 2], [7], {"x": 8}, _Point(9, 0), 5, 1.5, [[1, 2], 3], None)]


def subject_forms(log):
    def pair():
        log.append("evaluated")
        return 1, 2

    match pair():
        case (1, x):
            log.append(x)
    match 1, [2, 3]:
        case 1, [*items]:
            log.append(items)
    match *[1, 2], 3:
        case [*everything]:
            log.append(everything)
    match walrus := len(log):
        case 4:
            return "four", walrus
        case n:
            return n, walrus


def match_in_loop_with_flow(log):
    for command in ("go north", "skip", "take key lamp", "go", "quit", "unreached"):
        match command.split():
            case ["go", direction]:
                log.append(direction)
            case ["take", *things]:
                for thing in things:
                    log.append(thing)
            case ["skip"]:
                continue
            case ["quit"]:
                break
            case [other]:
                log.append(("incomplete", other))
    else:
        log.append("never")
    return command


def match_in_try_and_with(log):
    def what(value):
        try:
            match value:
                case {"raise": kind}:
                    raise kind
                case [x, y]:
                    return x // y
                case _:
                    return "default"
        except (ValueError, ZeroDivisionError) as e:
            return type(e).__name__
        finally:
            log.append("finally")

    return what({"raise": ValueError}), what([1, 0]), what([4, 2]), what(None)


def match_length_raises(log):
    class Bad(list):
        def __len__(self):
            raise RuntimeError("no length")

    match Bad():
        case [a, b]:
            return a

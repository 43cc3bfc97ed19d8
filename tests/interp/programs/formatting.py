"""f-strings and the conversions behind them."""
# ruff: noqa

import datetime


def simple(log):
    name, n, f = "x", 42, 3.14159
    return f"{name}", f"{n} and {f}", f"", f"{{{n}}}", f"{n!r}{name!r}{name!s}{'é'!a}", f"ab{n}"


def format_specs(log):
    n, f, width, precision = 42, 3.14159, 10, 3
    return (
        f"{n:5}|{n:<5}|{n:^5}|{n:05d}|{n:x}|{n:#b}|{n:,}|{-n:+}",
        f"{f:.2f}|{f:{width}.{precision}}|{f:{width}}|{f:e}|{f:%}",
        f"{'text':>{width}}|{'text'!r:>{width}}",
        f"{datetime.date(2024, 1, 2):%Y/%m}",
        f"{n:{'>'}{'8'}}",
    )


def debug_form(log):
    x, items = 5, {"k": [1]}
    return f"{x=}", f"{x = }", f"{x + 1=:>4}", f"{items['k']=!s}", f"{x!r:^{x}}"


def expressions(log):
    items = [1, 2, 3]
    return (
        f"{sum(i * i for i in items)}",
        f"{(lambda v: v * 2)(4)}",
        f"{items[0] if items else 'none'}",
        f"{'nested ' + f'{items[1]:>{items[2]}}'}",
        f"{(w := 7)}{w}",
        f"{ {'a': 1}['a'] }",
    )


def evaluation_order(log):
    def say(x):
        log.append(x)
        return x

    return f"{say('a')}{say('b')!r:{say('>')}{say(5)}}{say('c'):{say('2')}}"


def format_protocol(log):
    class Money:
        def __init__(self, n):
            self.n = n

        def __format__(self, spec):
            log.append(("format", spec))
            return f"{self.n}{spec}"

        def __str__(self):
            log.append("str")
            return "str"

        def __repr__(self):
            log.append("repr")
            return "répr"

    m = Money(5)
    return (
        f"{m}",
        f"{m:EUR}",
        f"{m!s}",
        f"{m!r:>6}",
        f"{m!a}",
        f"{m=}",
        str(m),
        repr([m]),
        format(m, "x"),
        "{:y} {!r}".format(m, m),
    )


def format_errors(log):
    class BadFormat:
        def __format__(self, spec):
            return 5

    class BadStr:
        def __str__(self):
            return 5

        __repr__ = __str__

    for make in (
        lambda: f"{5:z}",
        lambda: f"{'a':d}",
        lambda: f"{object():x}",
        lambda: f"{BadFormat()}",
        lambda: f"{BadStr()!s}",
        lambda: f"{BadStr()!r}",
        lambda: f"{None:>5}",
        lambda: f"{[]:5}",
        lambda: f"{5:{'a'}{'b'}}",
    ):
        try:
            log.append(make())
        except (ValueError, TypeError) as e:
            log.append((type(e).__name__, str(e)))
    return f"{log[0]}{undefined_in_fstring}"


def multi_line(log):
    a, b = 1, 2
    text = f"""first {a}
second {b + 1}
third {a!r:>{b + 1}}"""
    return text.splitlines()


def percent_and_format(log):
    log.append("%s %r %5.1f %x %% %c" % ("s", "r", 2.55, 255, "c"))
    log.append("%(k)s-%(n)03d" % {"k": "v", "n": 7})
    log.append("{0}{1}{0} {k[x]} {o.real}".format("a", "b", k={"x": 1}, o=5))
    for action in (
        lambda: "%s" % (1, 2),
        lambda: "%s %s" % 1,
        lambda: "{}".format(),
        lambda: "%d" % "a",
        lambda: "%(k)s" % {},
    ):
        try:
            action()
        except (TypeError, IndexError, KeyError, ValueError) as e:
            log.append((type(e).__name__, str(e)))


def str_subclass_is_kept_or_not(log):
    class Text(str):
        pass

    t = Text("t")
    return type(f"{t}").__name__, type(f"{t}x").__name__, type(str(t)).__name__, type(t + "").__name__, f"{t}" is t


def many_pieces(log):
    values = list(range(300))
    namespace = {"v": values}
    source = "f'" + "".join(f"{{v[{i}]}}," for i in range(300)) + "'"
    return len(eval(source, namespace))


def joined_in_loop(log):
    parts = []
    for i, word in enumerate(["a", "bb", None, 3.0]):
        parts.append(f"{i}:{word!s:_^5}" if i % 2 else f"<{word}>")
    return "".join(parts)

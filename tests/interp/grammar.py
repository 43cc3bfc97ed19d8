"""What generated programs consist of: forms of expressions and statements, functions of (writer, scope, depth).

An expression form returns text, a statement form writes lines. Tables at the end of each part list the forms; a form
stands there as often as it should be drawn, plain ones first.
"""

ERRORS = ("Stop", "Worse", "ValueError", "TypeError", "KeyError")
CAUGHT = ("Stop", "Exception", "(ValueError, TypeError)", "ArithmeticError", "NameError", "(Worse, LookupError)")


def form(template):
    """An expression form of a template: {a} {b} integers, {s} a list, {c} a condition, {i} {o} {l} names, {n} 1 to 3.

    Inside an f-string only names will do: Python 3.11 has no nested quotes.
    """

    def write(w, scope, depth):
        makers = {
            "a": w.integer,
            "b": w.integer,
            "s": w.list_of_integers,
            "c": w.condition,
            "i": lambda scope, depth: w.choose(scope.integers),
            "o": lambda scope, depth: w.choose(scope.objects),
            "l": lambda scope, depth: w.choose(scope.lists),
            "n": lambda scope, depth: w.number(1, 3),
        }
        return template.format(
            **{key: make(scope, depth) for key, make in makers.items() if "{" + key + "}" in template}
        )

    return write


# ---- integers


def read_name(w, scope, depth):
    return w.choose(scope.integers)


def write_literal(w, scope, depth):
    return str(w.number(0, 9))


def write_walrus(w, scope, depth):
    if scope.inside:
        return read_name(w, scope, depth)
    return f"({w.choose(scope.writable)} := {w.integer(scope, depth)})"


def suspend(w, scope, depth):
    """Yield or await a value, where that is allowed."""
    value = w.integer(scope, depth)
    if scope.inside or scope.kind == "function":
        return f"abs({value})"
    if scope.kind == "generator":
        return f"((yield {value}) or 1)"
    return f"(await {w.choose(['Wait', *scope.list_callees('coroutine')])}({value}))"


CALLS = [
    *["{f}({a})", "{f}({a}, {b})", "{f}(*[{a}, {b}])", '{f}(*[{a}], **{{"y": {b}}})'] * 3,
    "{f}(x={a}, y={b})",
    "{f}({a}, k={b})",
    "{f}({a}, *({b}, 1), k=3)",
    '{f}(*{l}[:1], {a}, z={b}, **{{"w": 1}})',
    "{f}()",
    "{f}({a}, x={b})",
]


def call_function(w, scope, depth):
    """A call in one of the shapes that a call can have; some do not fit the signature."""
    names = scope.list_callees("function")
    if not names:
        return read_name(w, scope, depth)
    return form(w.choose(CALLS).replace("{f}", w.choose(names)))(w, scope, depth)


# How a function of each kind is used for sure by those that come after it.
USES = {
    "function": ["{f}({a})", "{f}({a}, {a})", "[{f}({a}) for c in few(2)]"],
    "generator": ["[*{f}({a})][:5]", "sum({f}({a}))", "dict(enumerate({f}({a})))"],
    "coroutine": ["drive({f}({a}))", "drive({f}(*[{a}]))"],
}


def drive_coroutine(w, scope, depth):
    names = scope.list_callees("coroutine")
    if not names:
        return read_name(w, scope, depth)
    return f"drive({w.choose(names)}({w.integer(scope, depth)}))"


INTEGERS = [
    *[read_name] * 4,
    write_literal,
    *[call_function] * 5,
    form("({a} + {b})"),
    form("({a} - {b})"),
    form("({a} * {b} % 97)"),
    form("({a} // ({b} or 1))"),
    form("({a} % 7 ** 2)"),
    form("(-{a} & 63)"),
    form("({a} if {c} else {b})"),
    form("len({s})"),
    form("(*{l}, {a})[{b} % 2 - 1]"),
    form("{l}[0]"),
    form("({s} or [{a}])[-1]"),
    form("({a} // ({b} - 1))"),
    form("(note({a}) or {b})"),
    form("sorted([{a}, {b}], key=lambda v: -v)[0]"),
    form("Point({a}, {b}).x"),
    form("Base({a}).bump({b}, *{l}[:2])"),
    form("Base({a}).twice"),
    form("Base({a}).missing"),
    form("getattr({o}, 'x', {a})"),
    form("({o}.x if isinstance({o}, Point) else {a})"),
    form("(~{a} % 9 - +{b})"),
    form("len({{*{l}, {a}}})"),
    form("int(f'{{{i}:03}}'[-1])"),
    form("max({s}, default={a})"),
    form("next(iter({s}), {b})"),
    form("(lambda v, *w: v + len(w))({a}, *{l}[:2])"),
    form("sum(c * 2 for c in {l}[:3])"),
    *[write_walrus] * 2,
    *[suspend] * 2,
    *[drive_coroutine] * 2,
]

CONDITIONS = [
    form("{a} < {b}"),
    form("{a} % 2 == 0"),
    form("not {a}"),
    form("{a} <= {b} < 9"),
    form("{a} in {l}"),
    form("{a} and {b}"),
    form("({a} > 2 or {b} != 1)"),
    form("{o} is None"),
    form("({o} is not None and not {b} > 3)"),
    form("isinstance({o}, (int, Point))"),
    form("any(c > {i} for c in {l}[:3])"),
]


# ---- lists, objects, iterables


def write_comprehension(w, scope, depth):
    inner = scope.replace(inside=True, integers=["c", *scope.integers])
    value, source = w.integer(inner, depth), w.choose(scope.lists) + "[:3]"
    tail = f" if {w.condition(inner, depth)}" if w.chance(2) else ""
    return w.choose(
        [
            f"[{value} for c in {source}{tail}]",
            f"list({value} for c in {source}{tail})",
            f"sorted({{{value} for c in {source}{tail}}})",
            f"list({{c: {value} for c in {source}{tail}}}.values())",
            f"[d - c for c in {source}{tail} for d in (1, {value})]",
            f"[(lambda: {value})() for c in {source}{tail}]",
        ]
    )


def write_async_comprehension(w, scope, depth):
    if scope.kind != "coroutine" or scope.inside:
        return write_comprehension(w, scope, depth)
    return w.choose(
        ["[c async for c in Steps(2)]", "[await Wait(c) for c in few(2)]", "[c + 1 async for c in ticks(3) if c]"]
    )


def consume_iterable(w, scope, depth):
    return w.choose(["[*{}]", "list({})", "sorted({})"]).format(w.iterable(scope, depth))


LISTS = [
    form("[{a}, {b}]"),
    form("{l}"),
    form("[*{l}[:2], {a}]"),
    *[write_comprehension] * 2,
    form("{s}[::-1][:4]"),
    form("({l} + [{a}])[-3:]"),
    form("[{a}] * 2"),
    *[consume_iterable] * 2,
    form("list(map(lambda v: v + {n}, {l}[:3]))"),
    form("[v - w for v, w in zip({l}, {l}[1:])]"),
    write_async_comprehension,
]

OBJECTS = [
    form("Point({a}, {b})"),
    form("None"),
    form("({a}, {b})"),
    form("{s}"),
    form('{{"k": {a}, "m": {b}}}'),
    form('{{"k": {a}, **{{"z": {b}}}}}'),
    form('"text"[:{a} % 5]'),
    form('f"{{{i}!r:>{{{i}}}}}-{{{o}!s:.9}}"'),
    form("(*{l}[:3], {a})"),
    form("Base({a})"),
    form("[[{a}, {b}], {l}[:2]]"),
    form("{{c: c * 2 for c in {l}[:3]}}"),
    form("(lambda v, w=2: (v, w))({a})"),
    form("{a}"),
    form("{o}"),
]


def call_generator(w, scope, depth):
    names = scope.list_callees("generator")
    if not names:
        return form("Steps({n})")(w, scope, depth)
    return form(w.choose(names) + w.choose(["({a})", "({a}, {b})", "(x={a})"]))(w, scope, depth)


ITERABLES = [
    form("few({n})"),
    form("{l}[:len(few(3))]"),
    form("[{a}, {b}][:len(few(2))]"),
    form("Steps({n})"),
    form("(v + {n} for v in few(3) if v != 1)"),
    form("map(lambda v: v + {n}, few({n}))"),
    *[call_generator] * 4,
]


# ---- simple statements


def assign(w, scope, depth):
    w.line(f"{w.choose(scope.writable)} = {w.integer(scope)}")


def assign_augmented(w, scope, depth):
    w.line(f"{w.choose(scope.writable)} {w.choose(['+=', '-=', '^=', '|='])} {w.integer(scope)}")


def assign_list(w, scope, depth):
    w.line(f"{scope.own_list} = {w.list_of_integers(scope)}")


def assign_object(w, scope, depth):
    w.line(f"{scope.own_object} = {w.anything(scope)}")


def note_values(w, scope, depth):
    text = f'f"{{{w.choose(scope.integers)}=}} {{{w.choose(scope.objects)}!s:.20}}"'
    value = w.choose([w.integer(scope), w.condition(scope), text, f"{w.choose(scope.objects)}.x"])
    w.line(f"note({value}, {w.choose(scope.integers)})")


def unpack(w, scope, depth):
    a, b = w.choose(scope.writable), w.choose(scope.writable)
    targets, source = w.choose(
        [
            (f"{a}, {b}", f"{w.integer(scope)}, {w.integer(scope)}"),
            (f"{a}, *{scope.own_list}", w.list_of_integers(scope)),
            (f"({a}, {b}), {scope.own_object}", f"({w.integer(scope)}, 1), None"),
            (f"{scope.own_object} = {a}, {b}", w.list_of_integers(scope)),
        ]
    )
    w.line(f"{targets} = {source}")


def mutate(w, scope, depth):
    o, s, value = w.choose(scope.objects), w.choose(scope.lists), w.integer(scope)
    w.line(
        w.choose(
            [
                f"{s}.append({value})",
                f"{s}[0] += {value}",
                f"{s}[1:2] = [{value}, 0]",
                f"{scope.own_list} += [{value}]",
                f"items[{value} % 2] ^= 1",
                f"if hasattr({o}, 'x'): {o}.x += {value}",
                f"if isinstance({o}, Base): del {o}.x",
                f"{scope.own_object} += {value}",
            ]
        )
    )


def delete(w, scope, depth):
    name = w.choose(scope.writable)
    w.line(f"del {w.choose([scope.own_list + '[:1]', scope.own_object, name, f'{name}, {scope.own_object}'])}")
    if name == "total" or not w.chance(4):
        w.line(f"{name} = {w.number(0, 5)}")
        w.line(f"{scope.own_object} = None")


def make_lambda(w, scope, depth):
    inner = scope.replace(inside=True, integers=["v", *scope.integers])
    w.line(f"{scope.own_object} = lambda v=1, *w: {w.integer(inner, 1)}")
    w.line(f"note({scope.own_object}({w.integer(scope, 1)}))")


def import_something(w, scope, depth):
    w.line(
        w.choose(
            [
                f"import operator as {scope.own_object}",
                f"from operator import neg as {scope.own_object}",
                f"from operator import no_such_name as {scope.own_object}",
            ]
        )
    )


def exchange_with_generator(w, scope, depth):
    """Send to, throw into and close a generator by hand."""
    names = scope.list_callees("generator")
    if not names:
        return note_values(w, scope, depth)
    it = w.name("it")
    w.line(f"{it} = {w.choose(names)}({w.integer(scope, 1)})")
    steps = [
        f"next({it}, -1)",
        f"{it}.send({w.integer(scope, 2)})",
        f"{it}.throw({w.choose(ERRORS)}(7))",
        f"{it}.close()",
    ]

    def exchange():
        w.line(f"note(next({it}))")
        for _ in range(w.number(1, 3)):
            w.line(f"note({w.choose(steps)})")

    w.block("try:", exchange)
    w.block("except StopIteration as stop:", lambda: w.line("note(stop.value)"))
    if w.chance(2):
        w.line(f"del {it}")


SIMPLE_STATEMENTS = [assign, note_values, assign_augmented, assign_list, assign_object, unpack, mutate, delete]


# ---- flow


def write_if(w, scope, depth):
    w.block(f"if {w.condition(scope)}:", lambda: w.body(scope, depth))
    if w.chance(3):
        w.block(f"elif {w.condition(scope)}:", lambda: w.body(scope, depth))
    if w.chance(2):
        w.block("else:", lambda: w.body(scope, depth))


def write_for(w, scope, depth):
    target = w.choose([*scope.writable, scope.own_object])
    inner = scope.replace(in_loop=True)
    w.block(f"for {target} in {w.iterable(scope)}:", lambda: w.body(inner, depth))
    if w.chance(3):
        w.block("else:", lambda: w.body(scope, depth))


def write_while(w, scope, depth):
    test = w.choose(
        ["spend()", f"spend() and {w.condition(scope)}", f"({w.condition(scope)}) and spend()", "(spend())"]
    )
    w.block(f"while {test}:", lambda: w.body(scope.replace(in_loop=True), depth))
    if w.chance(3):
        w.block("else:", lambda: w.body(scope, depth))


def leave(w, scope, depth):
    """break, continue, return or raise: mostly under a condition."""
    forms = [f"raise {w.choose(ERRORS)}({w.integer(scope, 1)})"]
    if scope.may_leave:
        forms.append(f"return {w.integer(scope, 1)}")
        if scope.in_loop:
            forms += ["break", "continue"] * 2
    if w.chance(4):
        return w.line(w.choose(forms))
    return w.block(f"if {w.condition(scope)}:", lambda: w.line(w.choose(forms)))


def write_raise(w, scope, depth):
    a = w.integer(scope, 1)
    forms = [
        f"raise {w.choose(ERRORS)}",
        f"raise Worse({a}) from Stop({w.integer(scope, 2)})",
        f"raise Stop({a}) from None",
        f'raise ExceptionGroup("group", [Stop({a}), ValueError(2), ExceptionGroup("inner", [Worse(3), KeyError(4)])])',
        f"assert {w.condition(scope)}, {a}",
        f"assert {w.condition(scope)}",
    ]
    if scope.in_handler:
        forms += ["raise"] * 3
    w.block(f"if {w.condition(scope)}:", lambda: w.line(w.choose(forms)))


def write_try(w, scope, depth):
    w.block("try:", lambda: w.body(scope, depth))
    handlers = w.number(0, 2)
    handling = scope.replace(in_handler=True)
    for _ in range(handlers):
        write_handler(w, handling, depth, "except")
    if handlers and w.chance(6):
        w.block("except:", lambda: w.body(handling, depth, most=2))
    if handlers and w.chance(3):
        w.block("else:", lambda: w.body(scope, depth, most=2))
    if not handlers or w.chance(2):
        w.block("finally:", lambda: w.body(scope, depth, most=2))


def write_handler(w, scope, depth, keyword):
    def handle():
        if named:
            w.line(f"note(type({named}).__name__, {named}.args, repr({named}.__context__))")
        w.body(scope, depth, most=2)

    named = w.name("e") if w.chance(2) else None
    w.block(f"{keyword} {w.choose(CAUGHT)}{f' as {named}' if named else ''}:", handle)


def write_try_star(w, scope, depth):
    w.block("try:", lambda: w.body(scope, depth))
    handling = scope.replace(in_handler=True, may_leave=False)
    for _ in range(w.number(1, 2)):
        write_handler(w, handling, depth, "except*")
    if w.chance(3):
        w.block("else:", lambda: w.body(scope, depth, most=2))
    if w.chance(3):
        w.block("finally:", lambda: w.body(scope, depth, most=2))


def write_with(w, scope, depth):
    managers = []
    for _ in range(w.number(1, 2)):
        mood = w.choose([0, 0, 1, 1, 2, 3])
        manager = w.choose([f"Manager({w.name('m')!r}, {mood})", f"managed({w.name('m')!r})"])
        managers.append(manager + w.choose(["", f" as {w.choose(scope.writable)}"]))
    w.block(f"with {', '.join(managers)}:", lambda: w.body(scope, depth))


PATTERNS = [
    "0 | 1",
    "None",
    "{o}",
    "[{o}, *_]",
    "(1, {o})",
    "[_, *{o}]",
    "[[*_], {o}]",
    '{{"k": {o}}}',
    '{{"k": 1, **{o}}}',
    "Point(0, {o})",
    "Point(x={o}, y=0) | Base(x={o})",
    "Point(_, 1 | 2 as {o})",
    "Point(1, 2, 3)",
    "int({o}) | str({o})",
    "Base.shared",
    "Base(twice=4)",
    "{{}}",
    "list([{o}, _] | [{o}])",
]


def write_match(w, scope, depth):
    subject = w.choose(
        [
            w.choose(scope.objects),
            w.anything(scope),
            f"({w.integer(scope)}, {w.choose(scope.objects)})",
            w.integer(scope),
        ]
    )

    def write_cases():
        for _ in range(w.number(1, 3)):
            pattern = w.choose(PATTERNS)
            # A bare capture matches everything, so only with a guard may a case come after it.
            guard = f" if {w.condition(scope)}" if pattern == "{o}" or w.chance(3) else ""
            w.block(f"case {pattern.format(o=scope.own_object)}{guard}:", lambda: w.body(scope, depth))
        if w.chance(2):
            w.block("case _:", lambda: w.body(scope, depth, most=2))

    w.block(f"match {subject}:", write_cases)


# ---- definitions


def define_function(w, scope, depth):
    """A nested function, called at once and again later if it is drawn."""
    if scope.level >= 2:
        return call_and_note(w, scope, depth)
    kind = w.choose(["function", "function", "generator"])
    name = w.name("inner")
    outer = scope.replace(callees=[*scope.callees])
    w.function(name, kind, outer, depth)
    if kind == "function":
        w.line(f"note({name}({w.integer(scope, 2)}))")
    else:
        w.line(f"note([*{name}({w.integer(scope, 2)})][:4])")
    return None


def call_and_note(w, scope, depth):
    w.line(f"note({call_function(w, scope, 1)})")


def define_class(w, scope, depth):
    name, has_make = w.name("Class"), w.chance(2)
    inside = scope.replace(integers=["by", *scope.integers], inside=True)

    def write_members():
        w.line(f"shared = {w.integer(scope.replace(inside=True), 1)}")
        w.block("def bump(self, by=1, *more):", write_bump)
        if w.chance(2):
            w.line("@property")
            w.block(
                "def twice(self):", lambda: w.line(f"return super().twice + {w.integer(scope.replace(inside=True), 2)}")
            )
        if has_make:
            w.line("@classmethod")
            w.block("def make(cls, by):", lambda: w.line("return cls(by + __class__.shared)"))

    def write_bump():
        w.line(f"self.y = {w.integer(inside, 1)}")
        w.line(f"return super().bump(by, *more) + {w.choose(['self.y', 'self.shared', 'self.absent'])}")

    w.block(f"class {name}(Base):", write_members)
    w.line(f"{scope.own_object} = {name}({w.integer(scope, 2)})")
    w.line(f"note({scope.own_object}.bump({w.integer(scope, 2)}), {scope.own_object}.twice)")
    if has_make:
        w.line(f"{scope.own_object} = {name}.make(2)")


# ---- generators and coroutines


def write_yield(w, scope, depth):
    w.line(
        w.choose(["yield {a}", "{t} = yield {a}", "{t} = (yield {a}) or {a}"]).format(
            t=scope.own_object, a=w.integer(scope, 1)
        )
    )


def write_yield_from(w, scope, depth):
    w.line(f"{scope.own_object} = yield from {w.iterable(scope)}")


def write_await(w, scope, depth):
    w.line(f"{w.choose(scope.writable)} = {suspend(w, scope, 1)}")


def write_async_for(w, scope, depth):
    inner = scope.replace(in_loop=True)
    source = w.choose(["Steps", "ticks"])
    w.block(f"async for {w.choose(scope.writable)} in {source}({w.number(1, 3)}):", lambda: w.body(inner, depth))
    if w.chance(3):
        w.block("else:", lambda: w.body(scope, depth))


def write_async_with(w, scope, depth):
    mood = w.choose([0, 0, 1, 1, 2, 3])
    w.block(f"async with Manager({w.name('m')!r}, {mood}) as {w.choose(scope.writable)}:", lambda: w.body(scope, depth))


STATEMENTS = [
    *[assign, note_values, assign_augmented, assign_list, assign_object, unpack, mutate],
    *[write_if, write_for, write_while, write_try, write_with, write_match] * 2,
    *[leave, write_raise] * 2,
    *[delete, make_lambda, import_something, call_and_note],
    *[write_try_star, define_function, define_class, exchange_with_generator] * 2,
]
STATEMENTS_OF_KIND = {
    "function": [],
    "generator": [write_yield, write_yield_from],
    "coroutine": [write_await, write_async_for, write_async_with],
}

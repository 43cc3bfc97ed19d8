"""Writes programs with breaks at random places and depths, and tensor work in front of and behind each.

`write(number)` draws everything from number(low, high), so that hypothesis and a random generator can both drive it. A
program comes twice, line by line the same: the second one notes each break in `hits` when it meets it.
"""

PREAMBLE = """
import contextlib, torch
hits = []
log = []
disabled = torch.compiler.disable(lambda *args: log.append(len(args)))

class Box:
    def __init__(self, t):
        self.t, self.n, self.items, self.table = t, 0, [], {}

class Manager:
    def __init__(self, box, *swallow):
        self.box, self.swallow = box, swallow
    def __enter__(self):
        self.box.n += 1
        return self.box
    def __exit__(self, kind, error, trace):
        self.box.items.append(kind and kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)

@contextlib.contextmanager
def managed(box):
    box.n += 10
    try:
        yield box
    finally:
        box.n += 100
"""

# One break each. The last ones leave numbers that nothing is computed with.
BREAKS = [
    'print("hit", {k})',
    "torch._dynamo.graph_break()",
    "disabled({k}, x)",
    "out.append(x.sum().item())",
    "out.append((x * {k}).tolist())",
    "if x.sum() > -1e9: x = x + {k}",
    "out.append(bool((x > 1e9).any()))",
]
WORK = [
    "x = x + {k}",
    "x = x * 2 - {k}",
    "x = torch.relu(x) + x.t().contiguous().t()",
    "box.t = box.t + x",
    "x = x + box.t",
    "out.append(x * {k})",
    "x = torch.cat([x, x])[:2] + 1",
    "x = x.clone().add_({k})",
    "x *= 2",
    "box.t = x; x = box.t + 1",
]
STATE = [
    "box.n += 1",
    "box.items.append({k})",
    "box.table[{k}] = box.n",
    "n = n + {k}",
    "total = [*box.items, n]",
    "box.items[-1:] = [n]",
    "pair = (n, x)",
    "f = lambda v: v * n",
    "shared = out; shared.append(n)",
    "out.append(out[:1])",
    "box.items = [*out[:1], n]",
    "out += [n]",
    "holder = {'x': x, 'out': out}",
]


class Writer:
    def __init__(self, number, budget=16):
        self.number, self.budget = number, budget
        self.lines = []  # (text, whether it is a break)
        self.names = 0

    def choose(self, options):
        return options[self.number(0, len(options) - 1)]

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def line(self, depth, text, is_break=False):
        self.lines.append(("    " * depth + text.replace("{k}", str(self.number(1, 3))), is_break))

    def work(self, depth):
        self.line(depth, self.choose(WORK))

    def stop(self, depth):
        self.work(depth)
        self.line(depth, self.choose(BREAKS), True)
        self.line(depth, self.choose(WORK[:3]))

    def block(self, depth, most=2):
        for _ in range(self.number(1, most)):
            self.budget -= 1
            choice = self.number(0, 5)
            if self.budget < 0 or depth > 6 or choice < 2:
                self.stop(depth)
            elif choice == 2:
                self.line(depth, self.choose(STATE))
            elif choice == 3:
                self.work(depth)
            else:
                self.choose(COMPOUND)(self, depth)

    def under(self, depth, head, most=2):
        self.line(depth, head)
        self.block(depth + 1, most)


def write_if(w, depth):
    w.under(depth, w.choose(["if n > 1:", "if box.n % 2:", "if len(out) > 1:"]))
    w.under(depth, "else:")


def write_for(w, depth):
    name = w.name()
    heads = ["for {} in range({{k}}):", "for {} in [1, 2]:", "for {}, y in enumerate([x, x + 1]):"]
    heads += ["for {} in list(box.table):", "for {}, y in zip([1, 2], (x, x)):"]
    w.under(depth, w.choose(heads).format(name))
    if w.number(0, 3) == 3:
        w.line(depth + 1, "if len(out) > 4: " + w.choose(["break", "continue"]))
        w.work(depth + 1)


def write_while(w, depth):
    name = w.name()
    w.line(depth, f"{name} = 0")
    w.line(depth, f"while {name} < {{k}}:")
    w.line(depth + 1, f"{name} += 1")
    w.block(depth + 1)


def write_with(w, depth):
    heads = ["with Manager(box):", "with torch.no_grad():", "with managed(box):", "with Manager(box), torch.no_grad():"]
    w.under(depth, w.choose([*heads, "with contextlib.nullcontext(), managed(box):"]))


def write_swallow(w, depth):
    w.under(depth, "with Manager(box, ValueError):")
    w.line(depth + 1, "raise ValueError(n)")
    w.work(depth)


def write_try(w, depth):
    w.under(depth, "try:")
    if w.number(0, 1):
        w.line(depth + 1, w.choose(["raise ValueError(n)", "raise KeyError({k})", "{}[n, {k}]"]))
    if w.number(0, 2):
        w.under(depth, w.choose(["except ValueError as error:", "except (KeyError, ValueError) as error:"]))
        w.line(depth + 1, w.choose(["out.append(str(error))", "pass", "raise", "raise KeyError(n) from error"]))
    else:
        w.under(depth, "finally:")


def write_call(w, depth):
    name = w.name()
    w.line(depth, f"def {name}(x, out, n=n):")
    if w.number(0, 1):
        w.line(depth + 1, "global log")
    w.block(depth + 1)
    w.line(depth + 1, "return x")
    w.line(depth, f"x = {name}(x, out)" if w.number(0, 1) else f"x = {name}(x, out=out, n={{k}})")


def write_closure(w, depth):
    name, cell = w.name(), w.name()
    w.line(depth, f"{cell} = [x]")
    w.line(depth, f"def {name}(x):")
    w.block(depth + 1, 1)
    w.line(depth + 1, f"{cell}.append(x)")
    w.line(depth + 1, f"return x + {cell}[0]")
    w.line(depth, f"x = {name}(x)")


def write_generator(w, depth):
    name, value = w.name(), w.name()
    w.line(depth, f"def {name}(x, out, n):")
    w.block(depth + 1, 1)
    w.line(depth + 1, "yield x")
    if w.number(0, 1):
        w.block(depth + 1, 1)
    w.line(depth + 1, "yield x * 2")
    w.line(depth, f"for {value} in {name}(x, out, n):")
    w.line(depth + 1, f"x = x + {value}")
    if w.number(0, 1):
        w.block(depth + 1, 1)


def write_comprehension(w, depth):
    name = w.name()
    w.line(depth, f"def {name}(x, out, n):")
    w.block(depth + 1, 1)
    w.line(depth + 1, "return x + n")
    w.line(depth, f"out.append([{name}(x, out, i) for i in range({{k}})])")


def write_method(w, depth):
    name = w.name()
    w.line(depth, f"def {name}(x, box):")
    w.line(depth + 1, "out, n = box.items, box.n")
    w.block(depth + 1, 1)
    w.line(depth + 1, "box.t = x")
    w.line(depth, f"holder = [{name}]")
    w.line(depth, "holder[0](x, box)")


def write_nonlocal(w, depth):
    name = w.name()
    w.line(depth, f"def {name}():")
    w.line(depth + 1, "nonlocal x")
    w.block(depth + 1, 1)
    w.line(depth, f"{name}()")


def write_generator_that_is_left(w, depth):
    name, value = w.name(), w.name()
    w.line(depth, f"def {name}(x, out, n):")
    w.line(depth + 1, "try:")
    w.line(depth + 2, "yield x")
    w.block(depth + 2, 1)
    w.line(depth + 2, "yield x * 2")
    w.line(depth + 1, "finally:")
    w.line(depth + 2, "out.append(n)")
    w.line(depth, f"for {value} in {name}(x, out, n):")
    w.line(depth + 1, f"x = x + {value}")
    w.block(depth + 1, 1)
    w.line(depth + 1, "if len(out) > {k}: break")
    w.work(depth)


def write_return_in_with(w, depth):
    name = w.name()
    w.line(depth, f"def {name}(x, out, n):")
    w.line(depth + 1, w.choose(["with Manager(box):", "with torch.no_grad(), Manager(box):", "for _ in [1, 2]:"]))
    w.block(depth + 2, 1)
    w.line(depth + 2, "return x + 1")
    w.line(depth, f"x = {name}(x, out, n)")


def write_recursion(w, depth):
    name = w.name()
    left = w.name()  # the block may change n
    w.line(depth, f"def {name}(x, out, n, {left}):")
    w.line(depth + 1, f"if {left} <= 0: return x + 1")
    w.block(depth + 1, 1)
    w.line(depth + 1, f"return {name}(x, out, n, {left} - 1) * 2")
    w.line(depth, f"x = {name}(x, out, n, {{k}})")


COMPOUND = [write_if, write_for, write_while, write_with, write_swallow, write_try, write_call, write_closure]
COMPOUND += [write_generator, write_comprehension, write_method]
COMPOUND += [write_nonlocal, write_generator_that_is_left, write_return_in_with, write_recursion]


def write(number):
    """Return the text of a program, and of the same program with its breaks counted."""
    writer = Writer(number)
    for _ in range(number(2, 4)):
        writer.block(1)
    texts = []
    for counted in (False, True):
        lines = [PREAMBLE, "def program(x, n, box):", "    out = []"]
        for place, (text, is_break) in enumerate(writer.lines):
            if is_break and counted:
                indent = " " * (len(text) - len(text.lstrip()))
                text = f"{indent}hits.append({place}); {text.lstrip()}" if not text.lstrip().startswith("if") else text
                if "hits" not in text:
                    text = text.replace("if x.sum()", f"if hits.append({place}) or x.sum()")
            lines.append(text)
        texts.append("\n".join([*lines, "    return x * 3, out, n"]))
    return texts

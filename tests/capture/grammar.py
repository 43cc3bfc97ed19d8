"""Writes programs that mix tensor work with Python state, on top of prelude.py.

Forms are templates: $t a tensor, $n a number, $c a condition, $l a list, $s a key; $i a tensor and $m a list that may
be assigned to. A writer draws numbers, with the plainest form first, so hypothesis shrinks to readable programs;
fuzz.py draws from a random generator. A form with ! in front is left out of calm programs, captured more often.
"""

import re
from pathlib import Path

PRELUDE = Path(__file__).with_name("prelude.py").read_text()

TENSOR_NAMES = ["x", "y", "w.t", 'w.table["t"]', "v.t", "w.param"]
NUMBER_NAMES = ["n", "k", "w.n", "1", "2", "0", "3", 'w.table["a"]', "w.list[0]", "v.n"]
LIST_NAMES = ["out", "items", "more", "w.list", "v.list", "calls"]

TENSORS = [
    "$t + $t",
    "$t * $n",
    "$n - $t",
    "-$t",
    "torch.relu($t).abs()",
    "$t.clone()",
    "$t.detach()",
    "w.scaled($t, by=$n)",
    "$t.sum(dim=0, keepdim=True) + $t",
    "torch.stack([$t, $t + $t]).mean(0)",
    "$t.t().contiguous().t()",
    "$t.reshape(3, -1).t()",
    "torch.cat([$t, $t])[:2]",
    "sum([$t * i for i in range($n % 3)], $t)",
    "sum(part for part in parts($t, $t))",
    "helper($t, $n)",
    "!halve($t)",
    "!keep_last($t)",
    "(lambda a, *rest: a * len(rest))($t, $n, $n)",
    "functools.reduce(operator.add, [$t, $t])",
    "w.linear($t)",
    "!w.norm($t + torch.zeros(2, 3))",
    "torch.where($t > $n, $t, $n * 1.0)",
    "F.dropout($t, 0.5)",
    "torch.rand(2, 3) + $t",
    "torch.full((2, 3), $n * 1.0)",
    "$t.double().float()",
    "F.softmax($t, dim=-1)",
    "w($t)",
    "max([$t, $t], key=lambda a: a.shape[0])",
    "next(iter([$t]))",
    "{'a': $t, 'b': $t}['a']",
    "Pair($t, $n).first",
    "($t if $c else $t)",
    "$t.masked_fill($t > 0, $n)",
    "torch.ones(2, $n % 2 + 3)[:, :3] * $t",
    "$t.unbind(0)[0]",
    "[*parts($t, $t)][-1]",
    "torch.split($t, 1)[0]",
    "$t.add($t, alpha=$n)",
    "F.linear($t, w.linear.weight, bias=w.linear.bias)",
]
NUMBERS = [
    "$n + $n",
    "$n * 2 % 5",
    "-$n",
    "x.shape[1]",
    "y.dim()",
    "len($l)",
    "w.double",
    "w.count()",
    "max($n, $n, 1)",
    "int($c)",
    "sum(w.list)",
    "min(w.list, key=lambda i: -i)",
    "sorted(w.list)[0]",
    "sorted(items, key=str)[-1]",
    "!bump()",
    "!w.add($n)",
    "w.read()",
    "w.point.x",
    "(w.point + w.point).y",
    "len(w.record.values)",
    "!len(w.deque) + w.deque[0]",
    'w.ordered["a"]',
    '!len(w.default["$s"])',
    '!w.missing["$s"]',
    '!w.counter["$s"]',
    'w.table.get("$s", $n)',
    "len(w.describe())",
    "ord(w.name[-1])",
    "len(f'{n}')",
    "collect($n, *[1, 2], scale=$n, **dict(a=1))",
    "!next(w.iterator, 0)",
    "next(i for i in [$n, $n] if i is not None)",
    "[i for i in range($n % 4)][-1]",
    "{i: i + $n for i in (1, 2)}[1]",
    "len({$n, $n})",
    "abs($n) // ($n or 1)",
    "Box.twice($n)",
    "w.pair.first",
    "!note($n)",
    "len(w)",
    "w[0]",
    "!hash(Key($n)) % 7",
    "total",
    "list(zip([$n, $n], 'ab'))[0][0]",
    "sum(map(abs, [$n, $n]))",
    "functools.partial(max, $n)($n)",
    "int(x.is_contiguous())",
    "int(x.requires_grad)",
    "[*echo($n)][0]",
    "Box.made",
    "!w.t._version",
]
CONDITIONS = [
    "$n > $n",
    "$n == $n",
    "$n in w.list",
    '"$s" in w.table',
    "w is v",
    "items is more",
    "x is y",
    "not $c",
    "($c and $c)",
    "($c or $c)",
    "isinstance(w, Base)",
    'hasattr(w, "extra")',
    "w.table",
    "$l",
    "!$n in w",
    "!$n in w.set",
    "w.list == items",
    "w.point == v.point",
    "any([$n, 0])",
    "all(i > 0 for i in w.list)",
    "Key($n) < Key($n)",
    "$t.shape == $t.shape",
    "torch.is_grad_enabled()",
    "w.table.keys() == v.table.keys()",
    "$n in $l",
]
SIMPLE = [
    "$i = $t",
    "$i = $t",
    "k = $n",
    "w.n = $n",
    "w.n += $n",
    "w.t = $t",
    "w.extra = $t",
    "w.extra = [$n, $t, w]",
    "v.n = $n",
    "out.append($t)",
    "!$l.append($n)",
    "!$l[0] = $n",
    "!$l[-1] = $t",
    "!$l.pop()",
    "!del $l[0]",
    "!$l.insert(1, $n)",
    "!$l.extend([$n, $n])",
    "!$m += [$n]",
    "!$l.sort(key=str)",
    "!$l.sort()",
    "!$l.reverse()",
    "!$l[1:] = [$n]",
    "!$l.remove($n)",
    "!$l.clear()",
    "!w.row.append($n)",
    'w.table["$s"] = $n',
    'w.table["t"] = $t',
    "!w.table[$n] = $n",
    '!del w.table["$s"]',
    '!w.table.pop("$s", None)',
    '!w.table.setdefault("$s", []).append($n)',
    "!w.table.update($s=$n)",
    "!w.set.add($n)",
    "!w.set.discard($n)",
    "!w.set |= {$n, 9}",
    "!w.deque.append($n)",
    "!w.deque.appendleft($t)",
    "!w.deque.popleft()",
    "!w.deque.rotate(1)",
    '!w.ordered["$s"] = $n',
    '!w.ordered.move_to_end("a")',
    '!w.ordered.pop("$s")',
    '!w.default["$s"].append($n)',
    '!w.counter["$s"] += $n',
    "!w.point.x = $n",
    "w.point = Point($n, w.point.y)",
    "!w.record.values.append($t)",
    "w.record.best = $t",
    "w.record = Record(values=w.list)",
    "w.double = $n",
    "!del w.extra",
    'setattr(w, "dyn", $n)',
    '!vars(w)["hidden"] = $n',
    "!Box.kind = $n",
    "!Box.shared.append($n)",
    "!seen[$n] = $n",
    'seen["last"] = $t',
    'registry["count"] += 1',
    'registry["box"] = w',
    "total_before = total",
    "w.me = w",
    "w.pair = Pair(items, more)",
    "!w.fn = lambda: ($n, k)",
    "w.bound = w.scaled",
    "!w.gen = parts(x, y)",
    "x.add_($n)",
    "y.mul_($t)",
    "w.t.add_($t)",
    "w.t += $n",
    "$i += $t",
    "y[0] = $n",
    "x[:, 1] = $t[:, 0]",
    "w.t[$n % 2] = $n",
    "w.t.zero_()",
    "w.view = x[0]",
    "w.alias = w.t",
    "w.t = y",
    "!note($n, $n)",
    "!bump()",
    "!w.add($n)",
    "w($t)",
    "k = w.norm.training",
    "w.norm.eval()",
    "!w.linear.weight.grad = None",
    "!w.param.tag = $n",
    "a, *b = $l",
    "(k, items[0]), out2 = (items[0], $n), k",
    "raise Stop($n)",
    "raise Worse($n, 'x') from None",
    'assert $c, "failed"',
    "{}[$n]",
    "w.absent",
    "$n // 0",
    "!print(end='')",
    "v.list = w.list",
    "w.linear, v.linear = v.linear, w.linear",
    "!x = x.requires_grad_()",
    "!torch.manual_seed($n)",
    "out.append([i * 2 for i in w.list if $c])",
    "out.append({**w.table})",
    "!out.append(tuple(w.set))",
    "out.append((w.describe(), f'{k:>4}', '%s' % n))",
    "out.append(list(w.table.items()))",
    "out.append(list(itertools.chain(w.list, items)))",
    "out.append(dict(zip(['a', 'b'], items)))",
    "out.append(sorted(w.table, key=str))",
    "out.append(slice(1, $n))",
    "out.append(w.scaled)",
    "!out.append(set(items))",
    "!out.append(iter(w.list))",
]
ERRORS = ["Stop", "(Stop, KeyError)", "Exception", "ValueError", "Worse", "LookupError", "AttributeError"]


class Writer:
    """Draws forms and keeps the text; number(low, high) is the source of all choices."""

    def __init__(self, number, budget=14):
        self.number = number
        self.budget = budget
        self.calm = number(0, 1) == 0
        self.lines = []
        self.functions = 0

    def choose(self, options):
        return options[self.number(0, len(options) - 1)]

    def form(self, forms):
        form = self.choose(forms)
        while self.calm and form[0] == "!":
            form = self.choose(forms)
        return form.removeprefix("!")

    def fill(self, template, depth=0):
        makers = {
            "t": lambda: self.expression(TENSOR_NAMES, TENSORS, depth),
            "n": lambda: self.expression(NUMBER_NAMES, NUMBERS, depth),
            "c": lambda: self.expression(["$n > 1", "n == k"], CONDITIONS, depth),
            "l": lambda: self.choose(LIST_NAMES),
            "m": lambda: self.choose(["items", "w.list", "more", "out"]),
            "i": lambda: self.choose(["x", "y"]),
            "s": lambda: self.choose(["a", "b", "z"]),
        }
        return re.sub(r"\$(\w)", lambda match: makers[match[1]](), template)

    def expression(self, names, forms, depth):
        if depth > 1 or self.number(0, 2) == 0:
            return self.fill(self.choose(names), depth + 1)
        text = self.fill(self.form(forms), depth + 1)
        return text if text.endswith((")", "]")) or "(" not in text and " " not in text else f"({text})"

    def line(self, depth, template):
        self.lines.append("    " * depth + self.fill(template))

    def block(self, depth, most=3):
        for _ in range(self.number(1, most)):
            self.statement(depth)

    def statement(self, depth):
        self.budget -= 1
        if self.budget < 0 or depth > 4 or self.number(0, 3) != 0:
            self.line(depth, self.form(SIMPLE))
        else:
            self.choose(COMPOUND)(self, depth)


def write_if(w, depth):
    w.line(depth, "if $c:")
    w.block(depth + 1)
    if w.number(0, 1):
        w.line(depth, "else:")
        w.block(depth + 1)


def write_for(w, depth):
    heads = ["for k in range($n % 3):", "for k in list($l):", "for part in parts(x, y):", "for name in w.table:"]
    heads += ["for k, part in enumerate(parts(x, $t)):", "for a, b in zip(items, w.list):", "for k in w.set:"]
    heads += ["for k in echo($n):", "for a, b in w.table.items():", "for k in w.iterator:"]
    if w.number(0, 4) == 4:  # what is gone through may grow on the way
        name = w.choose(LIST_NAMES)
        w.line(depth, f"for k in {name}:")
        w.line(depth + 1, f"if len({name}) > 6: break")
    else:
        w.line(depth, w.choose(heads))
    w.block(depth + 1)
    if w.number(0, 3) == 3:
        w.line(depth + 1, "if $c: " + w.choose(["break", "continue"]))
        w.block(depth + 1)


def write_while(w, depth):
    turns = f"turns{depth}"
    w.line(depth, f"{turns} = 0")
    w.line(depth, f"while {turns} < 3 and $c:")
    w.line(depth + 1, f"{turns} += 1")
    w.block(depth + 1)


def write_try(w, depth):
    w.line(depth, "try:")
    w.block(depth + 1)
    if w.number(0, 3):
        w.line(depth, f"except {w.choose(ERRORS)} as error:")
        w.line(
            depth + 1,
            w.choose(["out.append(str(error))", "k = 5", "w.error = error", "raise", "raise Worse(1) from error"]),
        )
        if w.number(0, 1):
            w.line(depth, "else:")
            w.block(depth + 1, 1)
    else:
        w.line(depth, "finally:")
        w.block(depth + 1, 2)


def write_with(w, depth):
    heads = ["with Manager(out) as k:", "with Manager(log, Stop):", "with torch.no_grad():", "with managed(out) as k:"]
    heads += ["with contextlib.suppress(LookupError):", "with torch.enable_grad(), Manager(w.list, Exception):"]
    w.line(depth, w.choose(heads))
    w.block(depth + 1)


def write_function(w, depth):
    w.functions += 1
    name = f"inner{w.functions}"
    w.line(depth, f"def {name}(a, b={w.choose(['1', 'k', 'n'])}):")
    w.line(depth + 1, w.choose(["nonlocal k", "nonlocal x", "nonlocal k, x"]))
    w.block(depth + 1, 2)
    w.line(
        depth + 1,
        w.choose(
            [
                "return a + b",
                "k = k + 1 if isinstance(k, int) else 0\n" + "    " * (depth + 1) + "return k",
                "x = x + b\n" + "    " * (depth + 1) + "return x",
            ]
        ),
    )
    w.line(
        depth,
        w.choose(
            [
                f"k = {name}(1)",
                f"out.append({name}($n, b=$n))",
                f"w.{name} = {name}",
                f"out.extend(map({name}, [1, 2]))",
                f"out.append(sorted([3, 1], key={name}))",
            ]
        ),
    )


def write_generator(w, depth):
    w.functions += 1
    name = f"gen{w.functions}"
    w.line(depth, f"def {name}(a):")
    w.block(depth + 1, 2)
    w.line(depth + 1, "got = yield a")
    w.line(depth + 1, "yield got or $n")
    w.line(
        depth,
        w.choose(
            [
                f"out.extend({name}(1))",
                f"k = next({name}($n))",
                f"for k in {name}(2): out.append(k)",
                f"g = {name}(1); next(g); k = g.send($n)",
                f"w.g = {name}(1); out.append(next(w.g))",
            ]
        ),
    )


COMPOUND = [write_if, write_for, write_try, write_with, write_function, write_while, write_generator]


def write_program(number, budget=14):
    """Return the text of `program`, to stand behind the prelude."""
    writer = Writer(number, budget)
    for _ in range(number(1, 5)):
        writer.statement(1)
    results = ["return x, y, k, out", "return $t", "return [$t, w.t, items], {'w': w, 'k': $n}", "return w", "pass"]
    writer.line(1, writer.choose(results))
    head = ["def program(x, y, n, w, v, items, more):", "    k = 0", "    out = []"]
    return "\n".join([*head, *writer.lines, ""])


# What is changed before a call. Each is something that a guard has to notice if the program read it.
TWISTS = [
    *("pass", "w.n += 1", "w.list.append(7)", "w.list.pop()", 'w.table["z"] = 1', 'w.table.pop("a", 0)'),
    *("w.extra = 1", "items.append(9)", "w.list = items", "v.list = w.list", "w.name += '3'", "calls.append(1)"),
    *('Box.kind = "other"', "Box.extra = 5", "Box.scaled = Base.count", "w.point = Point(5, 2)", "w.point.x += 1"),
    *("w.table = dict(reversed(w.table.items()))", "w.record.values.clear()", "w.pair = Pair(7, [])", "w.t = w.t[:]"),
    *(
        "w.t = w.t.double()",
        "w.t = w.t.t().contiguous().t()",
        "w.t = x.detach()",
        "w.param = w.t",
        "w.t = x.detach()[:]",
    ),
    *("w.t = torch.nn.Parameter(w.t.detach())", "w.linear = torch.nn.Linear(3, 3, bias=False)", "w.norm.eval()"),
    *("torch.set_grad_enabled(False)", "w.ordered.move_to_end('a')", "w.deque.rotate(1)", "w.set.add(0)"),
    *("w.scaled = lambda t, by=1: t", "w.linear.weight.requires_grad_(False)", "w.add(3)", "Base.extra = 7"),
    *("v.__dict__.update(w.__dict__)", "keep_last.__defaults__ = ([1],)", "helper.__code__ = keep_last.__code__"),
    *("w.default['z'] = [1, 2]", "w.counter['z'] = 4", "w.record = Record('s', w.list)", "w.list[:] = [w.n] * 3"),
    *(
        "seen['last'] = 1",
        "globals()['total'] = 40",
        "Box.__len__ = lambda self: 3",
        "w.list.sort()",
        "w.n = float(w.n)",
    ),
    *("w.n = bool(w.n)", "registry['count'] = 9", "w.table[3] = 'four'", "w.t = w.t.requires_grad_()"),
]


def write_plans(number):
    """Four calls: (plan of arguments for prelude.make_arguments, what is changed before).

    No plan stands for the arguments of the call before: the same objects again.
    """
    plans, last = [], None
    for _ in range(4):
        plan = [number(0, 2), number(0, 2), number(0, 3), number(0, 3), number(0, 1), number(0, 3), number(0, 2)]
        how = number(0, 4) if last else 4
        if how in (2, 3):
            plan[:] = [*last[: plan[2]], plan[1], *last[plan[2] + 1 :]] if how == 2 else last
        twist = TWISTS[number(0, len(TWISTS) - 1)] if last and number(0, 2) else "pass"
        plans.append((tuple(plan) if how > 1 else None, twist))
        last = plan if how > 1 else last
    return plans

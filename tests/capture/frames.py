"""Compares the frames that a compiled function leaves at each break with those of an interpreted run.

    compiled      region's path, break, region's path, break, ..    at each break a frozen picture of all frames
    interpreted   instruction after instruction, matched with the path; at the same instructions the same pictures

Both run in worlds that were made alike. A picture is frozen at once, so that nothing of the program is kept alive.
"""

import dis
import hashlib
import types
from types import SimpleNamespace

import torch

from alternator.testing import MISSING, Watch, frames, generator_state
from capture.world import ATOMS, Node, Picture

# State of the process that belongs to the moment and not to the program.
MOMENTARY = ("handled exception", "context", "warning filters")


LARGE = 1000  # items
STEPS = 3  # frames that no exit left are looked at so many times in a call


class Parted(Exception):
    """The interpreted run takes another way than the regions say."""


class FramesPicture(Picture):
    """A picture that leaves out namespaces of others, and what is too large to be a program's own."""

    def look(self, value, path):
        if isinstance(value, (dict, list)) and id(value) not in self.spaces:
            if len(value) > LARGE or (type(value) is dict and "__builtins__" in value):
                return Node(value, path, (type(value).__name__, "of others"))
        node = super().look(value, path)
        if isinstance(value, types.GeneratorType) and generator_state(value) is not None:
            dead = find_dead_in_generator(value)
            node.parts = [part for part in node.parts if part[0] not in dead]
        return node


def freeze(picture):
    """Return what the picture shows without holding any of its objects: rows of text, to be compared with another's."""
    numbers, rows, storages = {}, [], {}
    queue = []

    def shown(value):
        node = picture.nodes.get(id(value))
        if node is None:
            return "ours"
        if type(value) in ATOMS:
            return node.head
        if id(value) not in numbers:
            numbers[id(value)] = len(numbers)
            queue.append(node)
        return numbers[id(value)]

    roots = [(name, shown(value)) for name, value in picture.roots.items()]
    for node in queue:  # grows
        head = node.head
        if isinstance(node.object, torch.Tensor):
            content = head[10]
            digest = content if len(content) <= 128 else hashlib.sha1(content).digest()
            head = (*head[:10], digest, *head[11:], storages.setdefault(node.place[1], len(storages)))
        if isinstance(node.object, BaseException):
            head = (*head, *traceback_of(node.object))
        rows.append((node.path, head, [(label, shown(part)) for label, part in node.parts]))
    state = [
        (name, hash(value) if name == "random numbers" else value)
        for name, value in picture.state.items()
        if name not in MOMENTARY
    ]
    return roots, rows, state


def traceback_of(error):
    lines, entry = [], error.__traceback__
    while entry is not None:
        lines.append((entry.tb_frame.f_code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return tuple(lines)


def compare(one, other, limit=6):
    """Tell where two frozen pictures differ, as lines of text."""
    lines = []
    for a, b in zip(one[0], other[0], strict=False):
        if a != b:
            lines.append(f"{a[0]}: {a[1]} and {b}"[:400])
    if len(one[0]) != len(other[0]):
        lines.append(f"{len(one[0])} and {len(other[0])} values")
    for a, b in zip(one[1], other[1], strict=False):
        if a[1] != b[1]:
            lines.append(f"{a[0]}: {a[1]} and {b[0]}: {b[1]}"[:600])
        elif a[2] != b[2]:
            parts = [(x, y) for x, y in zip(a[2], b[2], strict=False) if x != y] or [(len(a[2]), len(b[2]))]
            lines.append(f"{a[0]}: has {parts[0][0]} and {parts[0][1]}"[:600])
    for a, b in zip(one[2], other[2], strict=True):
        if a != b:
            lines.append(f"state: {a[0]}: {a[1]} and {b[1]}"[:300])
    return lines[:limit]


# ---- Locals that nobody reads again --------------------------------------------------------------------------------


class Liveness:
    """Which locals are read again, by way of `dis` alone: the exit need not give out a tensor that is not."""

    cache = {}

    def __init__(self, code):
        rows = list(dis.get_instructions(code))
        self.next = {a.offset: b.offset for a, b in zip(rows, rows[1:], strict=False)}
        self.handlers = dis._parse_exception_table(code)
        self.live = {row.offset: set() for row in rows}
        changed = True
        while changed:
            changed = False
            for row in reversed(rows):
                now = self.after(row)
                now -= {row.argval} if row.opname == "STORE_FAST" else set()
                now |= {row.argval} if row.opname in ("LOAD_FAST", "DELETE_FAST", "LOAD_CLOSURE") else set()
                changed = changed or now != self.live[row.offset]
                self.live[row.offset] = now

    def after(self, row):
        found = set()
        if row.opname not in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"):
            found |= self.live.get(self.next.get(row.offset), set())
        if row.opcode in dis.hasjrel or row.opcode in dis.hasjabs:
            found |= self.live[row.argval]
        for entry in self.handlers:
            if entry.start <= row.offset < entry.end:
                found |= self.live[entry.target]
        return found

    @classmethod
    def at(cls, frame, inside):
        """Return the names that are read again from where the frame stands."""
        if frame.code not in cls.cache:
            cls.cache[frame.code] = cls(frame.code)
        self = cls.cache[frame.code]
        offset = max(o for o in self.live if o <= 2 * frame.offset)
        if not inside:
            return self.live[offset]
        rows = {row.offset: row for row in dis.get_instructions(frame.code)}
        return self.after(rows[offset])


def variable_names(code):
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def find_dead_tensors(stack):
    """Return the places of tensors in locals that are not read again."""
    found = set()
    for depth, frame in enumerate(stack):
        live = None
        for name, value in zip(variable_names(frame.code), frame.locals, strict=True):
            if isinstance(value, torch.Tensor):
                live = Liveness.at(frame, depth + 1 < len(stack)) if live is None else live
                if name not in live:
                    found.add((depth, name))
    return found


def find_dead_in_generator(generator):
    """Return the labels of such places in a suspended generator, of those as well where a tensor was left out."""
    code, offset, variables, *_ = generator_state(generator)
    names = variable_names(code)
    held = [i for i, value in enumerate(variables) if value is MISSING or isinstance(value, torch.Tensor)]
    live = Liveness.at(SimpleNamespace(code=code, offset=max(offset, 0)), False) if held else set()
    return {f"~local {i}" for i in held if names[i] not in live}


# ---- The two runs --------------------------------------------------------------------------------------------------


def list_values(handled, stack, left_out):
    """Name everything that the frames hold."""
    roots = {"handled": handled}
    for depth, frame in enumerate(stack):
        place = f"{depth} {frame.code.co_name}+{frame.offset} "
        for name, value in zip(variable_names(frame.code), frame.locals, strict=True):
            if (depth, name) not in left_out:
                roots[place + name] = value
        roots |= {f"{place}stack[{i}]": value for i, value in enumerate(frame.stack)}
        handled = None if frame.handled is MISSING else frame.handled  # CPython has both for none
        roots |= {place + "generator": frame.generator, place + "its exception": handled}
        roots[place + "function"] = frame.function
    return roots


def missing_places(stack):
    return {
        (depth, name)
        for depth, frame in enumerate(stack)
        for name, value in zip(variable_names(frame.code), frame.locals, strict=True)
        if value is MISSING
    }


class Event:
    """The frames at a break, frozen."""

    def __init__(self, spaces, missing=None):
        handled, stack = frames()
        self.missing = missing_places(stack)
        self.dead = find_dead_tensors(stack)
        # The exit may have left out what nobody reads.
        left_out = (missing & self.dead) if missing is not None else set()
        self.place = f"{stack[-1].code.co_name}+{stack[-1].offset}"
        self.roots = list_values(handled, stack, left_out)
        self.spaces = spaces

    def freeze(self):
        picture = freeze(FramesPicture(self.roots, self.spaces, outside=False))
        del self.roots
        return picture


class Taken:
    """The way that a compiled call takes, and what its frames hold at each break."""

    def __init__(self, spaces=()):
        self.spaces = spaces
        self.steps = []  # (code, offset, depth, event or None)
        self.events = 0
        self.errors = []
        self.exited = False  # a region has just run
        self.left = STEPS

    def at_region(self, path):
        self.steps += [(*step, None) for step in path]
        self.exited = True

    def at_instruction(self, code, offset, depth):
        exited, self.exited = self.exited, False
        if not exited:
            self.left -= 1
            if self.left < 0:
                self.steps.append((code, offset, depth, None))
                return
        try:
            if self.steps and self.steps[-1] == (code, offset, depth, None):
                self.steps.pop()  # the trace ended there
            event = Event(self.spaces)
            self.steps.append((code, offset, depth, (event.missing, event.freeze())))
            self.events += 1
        except BaseException as error:
            self.errors.append(error)

    def run(self, fn, *args):
        with Watch(self.at_instruction, self.at_region):
            return fn(*args)


class Followed:
    """The same way in an interpreted run; `differences` are lines of text."""

    def __init__(self, taken, spaces=()):
        self.taken = taken
        self.spaces = spaces
        self.next = 0
        self.differences = []
        self.compared = 0
        self.passed = 0  # breaks that the interpreted run has no place for
        self.errors = []

    def at_instruction(self, code, offset, depth):
        if self.next >= len(self.taken.steps) or self.errors:
            return True
        expected_code, expected_offset, expected_depth, event = self.taken.steps[self.next]
        here = (code, offset, depth) == (expected_code, expected_offset, expected_depth)
        if depth > expected_depth and not here:
            return False  # inside of what was one step
        if depth == expected_depth and code is not expected_code and offset == expected_offset == 0:
            self.pass_by(depth)  # a trace calls something of the same meaning in its place
            return False
        try:
            if not here:
                where = f"{code.co_name}+{offset}, {depth} deep"
                raise Parted(f"{where}, not {expected_code.co_name}+{expected_offset}, {expected_depth} deep")
            self.next += 1
            if event is not None:
                self.compare(*event)
        except BaseException as error:
            self.errors.append(error)
        return event is not None and self.is_opaque()

    def pass_by(self, depth):
        """Go on behind a call."""
        while self.next < len(self.taken.steps) and self.taken.steps[self.next][2] >= depth:
            self.passed += self.taken.steps[self.next][3] is not None
            self.next += 1

    def is_opaque(self):
        """Tell whether the next step is not one inside of this one."""
        if self.next >= len(self.taken.steps):
            return True
        return self.taken.steps[self.next][2] <= self.taken.steps[self.next - 1][2]

    def compare(self, missing, frozen):
        event = Event(self.spaces, missing)
        theirs = leave_out(frozen, missing & event.dead)
        self.compared += 1
        self.differences += [
            f"break {self.compared} at {event.place}: {line}" for line in compare(theirs, event.freeze())
        ]

    def run(self, fn, *args):
        return Watch(self.at_instruction).run(fn, *args)


def leave_out(frozen, places):
    """Take roots out of a frozen picture that hold nothing."""
    if not places:
        return frozen
    roots, rows, state = frozen

    def place_of(root):
        depth, _, rest = root.partition(" ")
        return (int(depth), rest.partition(" ")[2]) if depth.isdigit() else None

    return [(name, value) for name, value in roots if place_of(name) not in places], rows, state

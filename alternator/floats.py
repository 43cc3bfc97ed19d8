"""Floats that are others at each call: a temperature, a learning rate with a scheduler.

As in TorchDynamo's graphs, such a float is a tensor without dimensions, of type float64, of which the graph takes the
item: backends know no inputs that are floats. Beside the float in the program's hands stands a torch.SymFloat. What is
computed with it the graph computes again, operation by operation, so that it gets eager's value to the last bit.

torch's ShapeEnv treats floats as real numbers, which they are not. So conditions on floats are not left to it: a
comparison is computed again as the program computes it (csrc/guard/conditions.h), and a value that is relied on is
compared. Only finite floats fit a graph.
"""

from __future__ import annotations

import math
import operator
import struct
import typing

import torch
from torch._dynamo import config
from torch._dynamo.source import FloatTensorSource
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import StatelessSymbolicContext

from alternator.torch_errors import GivenUp

SYMBOLS = (torch.SymInt, torch.SymFloat)
# Operations that conditions are computed by.
OPERATIONS = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "truediv",
    operator.neg: "neg",
}
COMPARISONS = {
    operator.lt: ("lt", "<"),
    operator.le: ("le", "<="),
    operator.eq: ("eq", "=="),
    operator.ne: ("ne", "!="),
    operator.gt: ("gt", ">"),
    operator.ge: ("ge", ">="),
}


class Float(typing.NamedTuple):
    """One that has a symbol."""

    name: str
    node: int
    value: float
    tensor: torch.Tensor
    fake: FakeTensor
    source: FloatTensorSource


class Floats:
    """The floats with symbols of one trace."""

    def __init__(self, shapes):
        self.shapes = shapes
        self.known = {}  # symbol -> Float
        self.placeholders = {}  # node of the graph -> Float
        self.fixed = set()  # symbols whose values are relied on
        self.comparisons = []  # (text, instructions)

    def add(self, name, node, value):
        """Make the symbol of a float; None if it is to be a constant."""
        if config.specialize_float or not math.isfinite(value) or value == 0:  # whose sign no comparison tells
            return None
        for known in self.known.values():
            if known.node == node:
                return known.fake.item_memo
        shapes = self.shapes
        source = FloatTensorSource(shapes.add_source(node, name))
        context = StatelessSymbolicContext(dynamic_sizes=[], constraint_sizes=[])
        with torch._C.DisableTorchFunction():
            tensor = torch.full((), value, dtype=torch.float64, device="cpu")
            fake = shapes.mode.from_tensor(tensor, source=source, symbolic_context=context)
        symbol = fake.item_memo
        if type(symbol) is not torch.SymFloat:
            return None
        self.known[symbol.node.expr] = Float(name, node, value, tensor, fake, source)
        return symbol

    def write(self, symbol):
        """Write the input that a float is, and the node that takes its item."""
        known, shapes = self.known[symbol], self.shapes
        node = shapes.writer.make_placeholder(known.name)
        object.__setattr__(node, "_dynamo_source", known.source)
        node.meta["tensor_dict"] = {}
        node.meta["example_value"] = known.fake
        self.placeholders[node] = known
        return shapes.write_item(node, known.fake.item_memo)

    # ---- What is relied on -----------------------------------------------------------------------------------------

    def find_leaves(self, value):
        """Find the floats that a symbol is computed from."""
        if not self.known or type(value) not in SYMBOLS:
            return set()
        recipe = self.shapes.recipes.get(id(value))
        if recipe is not None:
            return set().union(*map(self.find_leaves, recipe[2]))
        return {symbol for symbol in value.node._expr.free_symbols if symbol in self.known}

    def is_fixed(self, symbol):
        """Tell whether the value of a symbol is relied on, so that it may be taken for a constant."""
        leaves = self.find_leaves(symbol)
        return bool(leaves) and leaves <= self.fixed and not self.find_others(symbol)

    def find_others(self, value):
        """Find the symbols that are no floats and that a symbol is computed from."""
        if type(value) not in SYMBOLS:
            return set()
        recipe = self.shapes.recipes.get(id(value))
        if recipe is not None:
            return set().union(*map(self.find_others, recipe[2]))
        return {symbol for symbol in value.node._expr.free_symbols if symbol not in self.known}

    def settle(self, symbol):
        self.fixed |= self.find_leaves(symbol)
        for other in self.find_others(symbol):
            self.shapes.settle(self.shapes.make_symbol(other))

    def compare(self, function, a, b, outcome):
        """Rely on how two numbers compare."""
        instructions = [*self.compute(a), *self.compute(b)]
        if None in instructions:
            self.settle_both(a, b)
            return
        name, sign = COMPARISONS[function]
        instructions.append((name, 0))
        if not outcome:
            instructions.append(("invert", 0))
        text = f"{self.describe(a)} {sign} {self.describe(b)}"
        row = text if outcome else f"not {text}", instructions
        if row not in self.comparisons:
            self.comparisons.append(row)

    def settle_both(self, a, b):
        for each in (a, b):
            if type(each) in SYMBOLS:
                self.shapes.settle(each)

    def compute(self, value):
        """List the instructions that compute a number again; None among them if there are none."""
        if type(value) is float:
            return [load_float(value)]
        if type(value) is int and abs(value) < 2**53:
            return [("constant", value)]
        if type(value) not in SYMBOLS:
            return [None]
        recipe = self.shapes.recipes.get(id(value))
        if recipe is not None:
            _, function, operands = recipe
            whole = not any(type(each) in (float, torch.SymFloat) for each in operands)
            if function not in OPERATIONS or (whole and function is operator.truediv):
                return [None]
            return [row for each in operands for row in self.compute(each)] + [(OPERATIONS[function], 0)]
        symbol = value.node._expr
        if symbol in self.known:
            return [("load", (self.known[symbol].node, "object", 0))]
        return [("load", self.shapes.sources[symbol])] if symbol in self.shapes.sources else [None]

    def describe(self, value):
        if type(value) not in SYMBOLS:
            return repr(value)
        recipe = self.shapes.recipes.get(id(value))
        if recipe is not None:
            return f"{OPERATIONS[recipe[1]]}({', '.join(map(self.describe, recipe[2]))})"
        known = self.known.get(value.node._expr)
        return str(value.node._expr) if known is None else known.name

    def take_guards(self):
        """Take over what ShapeEnv, asked by a call or by a backend, assumed of floats: their values."""
        env = self.shapes.env
        self.fixed |= self.known.keys() & env.replacements.keys()
        kept = []
        for guard in env.guards:
            symbols = guard.expr.free_symbols
            if symbols.isdisjoint(self.known):
                kept.append(guard)
            elif symbols <= self.known.keys():
                self.fixed |= symbols
            else:
                raise GivenUp(f"the assumption {guard.expr}")
        env.guards[:] = kept

    def list_conditions(self, quantities):
        """List the conditions on floats, as shape_conditions.py does; `quantities` are those that are loaded."""
        rows = list(self.comparisons)
        for symbol, known in self.known.items():
            load = ("load", (known.node, "object", 0))
            if symbol in self.fixed:
                rows.append((f"{known.name} == {known.value!r}", [load, load_float(known.value), ("eq", 0)]))
            else:
                least, most = load_float(-math.inf), load_float(math.inf)
                between = [load, least, ("gt", 0), load, most, ("lt", 0), ("both", 0)]
                rows.append((f"math.isfinite({known.name})", between))
        return [(text, [number_load(row, quantities) for row in instructions]) for text, instructions in rows]


def load_float(value):
    return "real", struct.unpack("<q", struct.pack("<d", value))[0]


def number_load(instruction, quantities):
    name, operand = instruction
    if name != "load":
        return instruction
    if operand not in quantities:
        quantities.append(operand)
    return name, quantities.index(operand)


def hint_of(value):
    return value.node.hint if type(value) in SYMBOLS else value


def is_constant(symbol):
    return symbol.node.is_constant() or symbol.node.expr.is_number

"""What torch's ShapeEnv assumed of sizes and numbers, as programs that csrc/guard/conditions.h runs.

ShapeEnv writes its assumptions as Python expressions on sources: `2 <= L['x'].size()[0]`. They become instructions for
a machine with a stack of integers.
"""

from __future__ import annotations

import ast

OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.And: "both",
    ast.Or: "either",
    ast.USub: "neg",
    ast.Not: "invert",
}


class NoCondition(Exception):
    """An assumption that cannot be written as a program."""


def normalize(name):
    """Write a source's name as ast does; None if it is no expression."""
    try:
        return ast.unparse(ast.parse(name, mode="eval"))
    except SyntaxError:
        return None


class Compiler:
    """Makes one table of quantities, and the programs of all conditions."""

    def __init__(self, sources):
        self.sources = {normalize(name): node for name, node in sources.items()}
        self.quantities = []  # (node, extent, dimension)

    def compile(self, expression):
        """List the instructions for a condition."""
        try:
            tree = ast.parse(expression, mode="eval").body
        except SyntaxError as error:
            raise NoCondition(expression) from error
        return list(self.visit(tree))

    def visit(self, tree):
        match tree:
            case ast.Constant(value=bool() | int() as value) if abs(value) < 2**63:
                yield "constant", int(value)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                yield from self.apply(OPERATORS[type(operator)], left, right)
            case ast.UnaryOp(op=operator, operand=operand) if type(operator) in OPERATORS:
                yield from self.apply(OPERATORS[type(operator)], operand)
            case ast.BoolOp(op=operator, values=[first, *others]):
                yield from self.visit(first)
                for other in others:
                    yield from self.visit(other)
                    yield OPERATORS[type(operator)], 0
            case ast.Compare(left=left, ops=operators, comparators=others):
                yield from self.compare(left, operators, others)
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, *others]):
                yield from self.visit(first)
                for other in others:
                    yield from self.visit(other)
                    yield name, 0
            case _:
                yield "load", self.find_quantity(tree)

    def apply(self, operation, *operands):
        for operand in operands:
            yield from self.visit(operand)
        yield operation, 0

    def compare(self, left, operators, others):
        """Compare in a chain: `2 <= a <= 9`."""
        for number, (operator, right) in enumerate(zip(operators, others, strict=True)):
            if type(operator) not in OPERATORS:
                raise NoCondition(ast.unparse(left))
            yield from self.apply(OPERATORS[type(operator)], left, right)
            if number:
                yield "both", 0
            left = right

    def find_quantity(self, tree):
        match tree:
            case ast.Call(func=ast.Attribute(value=source, attr="storage_offset")):
                row = self.find_node(source), "offset", 0
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size" | "stride" as extent)),
                slice=ast.Constant(value=int() as dimension),
            ):
                row = self.find_node(source), extent, dimension
            case _:
                row = self.find_node(tree), "object", 0
        if row not in self.quantities:
            self.quantities.append(row)
        return self.quantities.index(row)

    def find_node(self, tree):
        name = ast.unparse(tree)
        if name not in self.sources:
            raise NoCondition(name)
        return self.sources[name]

    def is_about_offset(self, program, nodes):
        """Tell whether a condition is about where one of some tensors begins in its storage, and nothing else."""
        loaded = {self.quantities[index] for name, index in program if name == "load"}
        return bool(loaded) and all(extent == "offset" and node in nodes for node, extent, _ in loaded)


def make_conditions(expressions, sources, free_offsets=frozenset()):
    """Make what the core checks of ShapeEnv's expressions. `sources`: their names and nodes.

    ShapeEnv has a value or a range for the offset of each tensor; where nothing relied on it (`free_offsets`) it is
    no condition.
    """
    compiler = Compiler(sources)
    conditions = [(expression, compiler.compile(expression)) for expression in expressions]
    conditions = [row for row in conditions if not compiler.is_about_offset(row[1], free_offsets)]
    return compiler.quantities, conditions

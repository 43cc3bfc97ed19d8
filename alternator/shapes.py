"""Symbols: sizes of tensors and numbers of the program that are no constants of a graph.

The program has ordinary fakes and ordinary numbers in its hands, with the values of the call that is traced. Beside a
fake whose sizes may be others next time stands one of torch's FakeTensorMode with symbolic sizes, and beside a number
its torch.SymInt (csrc/record/rules_symbols.cpp has the numbers). What is done to one is done to the other, so that
torch's own ShapeEnv knows what a graph relies on: its assumptions are conditions of the region (shape_conditions.py),
its symbols are inputs of the graph, as in TorchDynamo's.

What cannot be done with symbols is not: the trace is made again with constants (`GivenUp`).
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import weakref

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import TensorProperty, TensorPropertySource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    ConstraintViolationError,
    DimDynamic,
    RelaxedUnspecConstraint,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
    compute_unbacked_bindings,
)
from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts
from torch.utils._sympy import functions as torch_sympy
from torch.utils._sympy.value_ranges import ValueRanges

from alternator import _capture
from alternator.floats import SYMBOLS, Floats, hint_of, is_constant
from alternator.graphs import InputSource
from alternator.options import say_once
from alternator.shape_conditions import make_conditions, normalize
from alternator.shape_places import PlacedShapeEnv, make_violation
from alternator.torch_errors import GivenUp

COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
# By the operand of BINARY_OP; those in place follow in the same order.
ARITHMETIC = {
    0: operator.add,
    2: operator.floordiv,
    5: operator.mul,
    6: operator.mod,
    8: operator.pow,
    10: operator.sub,
    11: operator.truediv,
}
OPERATIONS = 13
NUMBERS = (int, float)
# What stands for a number that the graph computes from data, while tracing.
UNKNOWN = {torch.SymInt: 7, torch.SymFloat: 7.5}
# Expressions of sympy as calls. Those of several arguments are folded.
CALLS = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    sympy.Pow: operator.pow,
    torch_sympy.PowByNatural: operator.pow,
    torch_sympy.FloorDiv: operator.floordiv,
    torch_sympy.CleanDiv: operator.floordiv,
    torch_sympy.Mod: operator.mod,
    torch_sympy.PythonMod: operator.mod,
    torch_sympy.Max: torch.sym_max,
    torch_sympy.Min: torch.sym_min,
    torch_sympy.IntTrueDiv: operator.truediv,
    torch_sympy.FloatTrueDiv: operator.truediv,
    torch_sympy.ToFloat: torch.sym_float,
}


# What computes with numbers, and what does the same with symbols.
NUMBER_FUNCTIONS = {
    **{function: function for function in ARITHMETIC.values()},
    max: torch.sym_max,
    min: torch.sym_min,
    sum: operator.add,
    math.prod: operator.mul,
    torch.Size.numel: operator.mul,
    abs: abs,
    float: torch.sym_float,
    math.sqrt: torch._sym_sqrt,
    math.ceil: math.ceil,
    math.floor: math.floor,
}


UNBACKED = (
    "torch._dynamo.decorators.mark_unbacked() gives a size a symbol that has a value, as mark_dynamic() does: what "
    "depends on it is a condition of the graph, and sizes 0 and 1 have graphs of their own. Its options shape_id=, "
    "min= and max= have no effect."
)

FOLDED = {max, min, sum, math.prod, torch.Size.numel}  # of any numbers, or of a sequence of them


class Dimensions:
    """Which dimensions of a tensor get symbols, and what the user promised of them."""

    def __init__(self, tensor, moving, dynamic):
        marked = getattr(tensor, "_dynamo_dynamic_indices", ())
        wished = getattr(tensor, "_dynamo_weak_dynamic_indices", ())
        static = getattr(tensor, "_dynamo_static_indices", ())
        unbacked = getattr(tensor, "_dynamo_unbacked_indices", ())
        strict = getattr(tensor, "_dynamo_strict_unbacked_indices", ())
        if unbacked or strict:
            say_once(UNBACKED)
        self.marked = {*marked, *(d for d in strict if tensor.size(d) > 1)}
        found = {*self.marked, *wished, *unbacked}
        if dynamic.automatic:
            found |= set(moving)
        if dynamic.all and not isinstance(tensor, torch.nn.Parameter):
            found |= set(range(tensor.dim()))
        # What is known of dimensions may come from a call in which the tensor had more of them.
        found.intersection_update(range(tensor.dim()))
        # Torch has no symbols for sizes 0 and 1; a promise that cannot be kept is an error, which ShapeEnv words.
        self.free = tuple(sorted(d for d in found if d in marked or (d not in static and tensor.size(d) > 1)))
        ranges = getattr(tensor, "_dynamo_dynamic_range", ())
        self.ranges = {each.dim: (each.min, each.max) for each in ranges}

    def make_context(self, rank):
        sizes, constraints = [], []
        for dimension in range(rank):
            is_marked = dimension in self.marked
            kind = DimDynamic.DYNAMIC if is_marked else DimDynamic.DUCK
            sizes.append(kind if dimension in self.free else DimDynamic.STATIC)
            constraints.append(self.make_constraint(dimension) if is_marked else None)
        return StatelessSymbolicContext(dynamic_sizes=sizes, constraint_sizes=constraints)

    def make_constraint(self, dimension):
        least, most = self.ranges.get(dimension, (None, None))
        if least is None and most is None:
            return RelaxedUnspecConstraint(warn_only=False)
        least = 2 if least is None else least
        most = sympy.oo if most is None else most
        return StrictMinMaxConstraint(vr=ValueRanges(lower=least, upper=most), warn_only=False)


@contextlib.contextmanager
def without_hints(tensor):
    """Leave the `hint_override` of marks out: ShapeEnv would take it for the size. It is for what compilers measure."""
    hints = tensor.__dict__.pop("_dynamo_hint_overrides", None)
    try:
        yield hints or {}
    finally:
        if hints is not None:
            tensor._dynamo_hint_overrides = hints


# Those that live. What one remembers of operators keeps it alive, in a way that no collector sees.
environments = weakref.WeakSet()


class Shapes:
    """The symbols of one trace."""

    def __init__(self, writer):
        self.env = PlacedShapeEnv(assume_static_by_default=True, allow_scalar_outputs=True)
        environments.add(self.env)
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.writer = writer
        self.fakes = {}  # id of a fake -> (it, the one with symbols or a static one for FakeTensorMode)
        self.offsets = set()  # nodes of tensors whose offsets into their storages are free: nobody asked
        self.contexts = []  # (fake with symbols, node of its tensor, context) of tensors from outside
        self.outside = []  # (tensor, its node), while the trace lasts
        self.forms = []  # (fake of an input, what its sizes and strides were when it came in)
        self.sources = {}  # symbol -> (node, extent, dimension)
        self.names = {}  # node -> the name of its source
        self.recipes = {}  # id of a SymInt -> (it, function, operands)
        self.nodes = {}  # expression, or id of a SymInt with a recipe -> node of the graph
        self.inputs = {}  # symbol -> placeholder
        self.outputs = {}  # id of a SymInt -> what it is among the tracer's outputs
        self.site = None  # where numbers are computed that no call has needed
        self.has_unknown = False  # numbers that the graph computes from data
        self.failure = None  # why the graph cannot be made
        self.bindings = None  # where the last call gave numbers that it computed
        self.measures = False  # the program has called len(), and its result has a symbol
        self.calls = 0  # nodes that compute numbers
        self.tensors = []  # (tensor from outside, its fake with symbols), of the graph's inputs
        self.floats = Floats(self)

    # ---- Tensors ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def symbolic(self):
        with torch._C.DisableTorchFunction(), self.mode, enable_python_dispatcher():
            yield

    def add_input(self, tensor, fake, name, dimensions):
        """Take a tensor from outside with sizes that may be others next time."""
        node = _capture.node_of(tensor)
        source = self.add_source(node, name)
        context = dimensions.make_context(tensor.dim())
        with torch._C.DisableTorchFunction(), without_hints(tensor) as hints:
            made = self.mode.from_tensor(tensor, source=source, symbolic_context=context)
            self.describer.lookup_tensor.clear()  # no weak references to the program's tensors: it could see them
        for dimension, hint in hints.items():
            if isinstance(size := made.size(dimension), torch.SymInt):
                self.env.var_to_hint_override[size.node.expr] = hint
        self.contexts.append((made, node, context))
        self.outside.append((tensor, node))
        self.forms.append((made, describe_form(made)))
        self.fakes[id(fake)] = fake, made
        for extent, values in (("size", made.size()), ("stride", made.stride()), ("offset", [made.storage_offset()])):
            for dimension, value in enumerate(values):
                if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
                    self.sources.setdefault(value.node.expr, (node, extent, dimension))

    def add_source(self, node, name):
        """Name a source; ShapeEnv names its symbols after it."""
        if normalize(name) is None or name in self.names.values():
            name = f"_{node}"
        self.names[node] = name
        return InputSource(name)

    def is_symbolic(self, fake):
        found = self.fakes.get(id(fake))
        return found is not None and has_symbols(found[1])

    def fake_for(self, fake):
        """Return what stands beside a fake; one with constant sizes is made for the occasion."""
        found = self.fakes.get(id(fake))
        if found is None or not (has_symbols(found[1]) or has_same_geometry(fake, found[1])):  # changed in place
            with self.symbolic():
                made = torch.empty_strided(fake.size(), fake.stride(), dtype=fake.dtype, device=fake.device)
                if fake.requires_grad:
                    made.requires_grad_(True)
            found = self.fakes[id(fake)] = fake, made
        return found[1]

    def touches(self, value, fake_of):
        """Tell whether there is a symbol in what a call is given."""
        if isinstance(value, torch.Tensor):
            return self.is_symbolic(fake_of(value))
        if isinstance(value, (tuple, list)):
            return any(self.touches(each, fake_of) for each in value)
        if isinstance(value, dict):
            return any(self.touches(each, fake_of) for each in value.values())
        if isinstance(value, slice):
            return self.touches((value.start, value.stop, value.step), fake_of)
        symbol = _capture.symbol_of(value) if type(value) in NUMBERS else None
        return symbol is not None and not self.floats.is_fixed(symbol)

    def replace(self, value, tensor, number):
        """Replace tensors, and numbers with symbols, in what a call is given."""
        if isinstance(value, torch.Tensor):
            return tensor(value)
        if type(value) in NUMBERS:
            symbol = _capture.symbol_of(value)
            return value if symbol is None or self.floats.is_fixed(symbol) else number(symbol)
        if isinstance(value, (tuple, list)):
            items = [self.replace(each, tensor, number) for each in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self.replace(each, tensor, number) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*(self.replace(each, tensor, number) for each in (value.start, value.stop, value.step)))
        return value

    def run(self, func, args, kwargs, fake_of):
        def find(tensor):
            return self.fake_for(fake_of(tensor))

        args = self.replace(args, find, lambda symbol: symbol)
        kwargs = self.replace(kwargs, find, lambda symbol: symbol)
        try:
            with self.symbolic():
                result = _capture.fakes.call_without_warnings(func, args, kwargs)
                self.bindings = compute_unbacked_bindings(self.env, result)
                return result
        except (MemoryError, RecursionError):
            raise
        except Exception as error:
            raise GivenUp(f"{type(error).__name__}: {error}") from error

    def follow(self, func, args, kwargs, result, fake_of):
        """Run a call that has given `result` with symbols, if there are any."""
        if self.touches(args, fake_of) or self.touches(kwargs, fake_of):
            self.pair(result, self.run(func, args, kwargs, fake_of))

    def bind(self, node):
        """Note which numbers a node computes."""
        if self.bindings:
            node.meta["unbacked_bindings"] = self.bindings
            self.bindings = None

    def pair(self, result, symbolic):
        if isinstance(result, torch.Tensor):
            self.check(result, symbolic)
            self.fakes[id(result)] = result, symbolic
        elif isinstance(result, (tuple, list)):
            if len(result) != len(symbolic):
                raise GivenUp("a call gives another number of results")
            for each, other in zip(result, symbolic, strict=True):
                self.pair(each, other)

    def check(self, fake, symbolic):
        """Check that two fakes are the same, but for the symbols."""
        if not isinstance(symbolic, FakeTensor):
            raise GivenUp("a call gives something else")
        sizes = [hint_of(size) for size in symbolic.size()]
        same = len(sizes) == fake.dim() and all(map(agrees, sizes, fake.size()))
        if not same or symbolic.dtype != fake.dtype:
            raise GivenUp(f"sizes {sizes} and {list(fake.size())}")

    def example_of(self, fake):
        """Return the example value of a tensor with symbols, None for any other."""
        return self.fakes[id(fake)][1] if self.is_symbolic(fake) else None

    # ---- Numbers ---------------------------------------------------------------------------------------------------

    def tell(self, func, args, kwargs, result, fake_of):
        """Tell what a tensor's metadata are: numbers may have symbols."""
        if not isinstance(result, (int, tuple)) or not (self.touches(args, fake_of) or self.touches(kwargs, fake_of)):
            return result
        symbolic = self.run(func, args, kwargs, fake_of)
        if func is torch.Tensor.__len__:  # C code makes a number of what it is given
            if not self.measures:
                self.settle_all(symbolic)
            self.measures = False
            return result
        return self.give(result, symbolic)

    def give(self, result, symbolic):
        if isinstance(result, tuple):
            if not isinstance(symbolic, tuple) or len(result) != len(symbolic):
                raise GivenUp("metadata of another kind")
            items = [self.give(each, other) for each, other in zip(result, symbolic, strict=True)]
            return torch.Size(items) if isinstance(result, torch.Size) else tuple(items)
        if isinstance(symbolic, torch.SymBool):
            symbolic = bool(symbolic)
        if not isinstance(symbolic, torch.SymInt):
            if symbolic != result:
                raise GivenUp(f"metadata {symbolic} and {result}")
            return result
        if not agrees(hint_of(symbolic), result):
            raise GivenUp(f"metadata {hint_of(symbolic)} and {result}")
        return result if is_constant(symbolic) else _capture.follow(result, symbolic)

    def combine(self, operation, a, b, left, right):
        """Compute with two numbers of which one or both have symbols; None if their values are relied on."""
        function = ARITHMETIC.get(operation % OPERATIONS)
        try:
            expected = function(left, right)
            symbol = self.compute(function, a, b)
        except Exception:  # a division by zero, which the program makes itself; what has no symbols
            symbol = None
        if symbol is None or type_of(symbol) is not type(expected) or not agrees(hint_of(symbol), expected):
            self.settle_all((a, b))
            return None
        return symbol

    def number_function(self, callable):
        try:
            return NUMBER_FUNCTIONS.get(callable)
        except TypeError:
            return None

    def call_number(self, callable, function, symbols, values):
        """Call a function with numbers, some of which have symbols; None if their values are relied on."""
        try:
            expected = callable(*values)
            symbol = self.fold(function, symbols) if callable in FOLDED else self.compute(function, *symbols)
        except Exception:
            symbol = None
        if symbol is None or type_of(symbol) is not type(expected) or not agrees(hint_of(symbol), expected):
            self.settle_numbers(values)
            return None
        return symbol

    def fold(self, function, symbols):
        (first, *others) = symbols[0] if len(symbols) == 1 and isinstance(symbols[0], tuple) else symbols
        return functools.reduce(functools.partial(self.compute, function), others, first)

    def measure(self, fake):
        size = self.fake_for(fake).size() if self.is_symbolic(fake) else ()
        if not size or not isinstance(size[0], torch.SymInt) or is_constant(size[0]):
            return None
        self.measures = True
        return size[0]

    def compute(self, function, *operands):
        with torch._C.DisableTorchFunction():
            symbol = function(*operands)
        if type(symbol) not in SYMBOLS:
            return symbol
        if any(map(self.floats.find_leaves, operands)) and (is_constant(symbol) or type(symbol) is torch.SymInt):
            return None  # what sympy says of real numbers need not be so of floats; sizes do not depend on them
        if is_constant(symbol):
            return hint_of(symbol)
        self.recipes[id(symbol)] = symbol, function, operands
        return symbol

    def decide(self, comparison, a, b, left, right):
        """Rely on how two numbers compare."""
        function = COMPARISONS[comparison]
        if self.floats.find_leaves(a) or self.floats.find_leaves(b):
            self.floats.compare(function, a, b, function(left, right))
            return
        with torch._C.DisableTorchFunction():
            decided = bool(function(a, b))
        if decided != function(left, right):
            raise GivenUp("a comparison comes out otherwise")

    def settle_all(self, values):
        for value in values if isinstance(values, tuple) else (values,):
            if type(value) in SYMBOLS:
                self.settle(value)

    def settle(self, symbol):
        """Rely on the value of a number."""
        if self.floats.find_leaves(symbol):
            self.floats.settle(symbol)
            return
        with torch._C.DisableTorchFunction():
            if type(symbol) is torch.SymFloat:
                symbol.node.guard_float("", 0)
            else:
                symbol.node.guard_int("", 0)

    def has_value(self, symbol):
        return hint_of(symbol) is not None

    def settle_numbers(self, value):
        """Rely on all numbers in what a call is given."""
        self.replace(value, keep, self.settle)

    def read_item(self, tensor, fake, write):
        """Read a number out of a tensor, by the graph: the program gets one that nothing may rely on."""
        symbol = self.run(torch.Tensor.item, (tensor,), {}, lambda _: fake)
        if type(symbol) not in SYMBOLS:
            raise GivenUp("an item that is no number")
        self.has_unknown = True
        if symbol.node.expr not in self.nodes:
            self.nodes[symbol.node.expr] = node = write()
            node.meta["example_value"] = symbol
            self.bind(node)
        return _capture.follow(UNKNOWN[type(symbol)], symbol)

    def name_number(self, name, node, value):
        """Make the symbol of a number that is another one at each call."""
        if type(value) is float:
            return self.floats.add(name, node, value)
        if value in (0, 1) or abs(value) >= 2**62:
            return None
        source = self.add_source(node, name)
        with torch._C.DisableTorchFunction():
            made = self.env.create_unspecified_symint_and_symbol(value, source, DimDynamic.DYNAMIC)
        if not isinstance(made, torch.SymInt):
            return None
        symbol = made.node.expr
        self.sources[symbol] = node, "object", 0
        self.inputs[symbol] = self.writer.add_number(name, made)
        return made

    def write_numbers(self, value):
        """Replace numbers with symbols by their nodes."""
        return self.replace(value, keep, self.node_of)

    # ---- The graph -------------------------------------------------------------------------------------------------

    def give_out(self, symbol):
        """Return the node of a number that the region leaves. The program stands nowhere by now."""
        self.site = self.writer.sites[-1][0] if self.writer.sites else -1
        return self.node_of(symbol)

    def node_of(self, symbol):
        """Return what a number is in the graph: a node, or the number if it is the same for all values by now."""
        if is_constant(symbol):
            return hint_of(symbol)
        recipe = self.recipes.get(id(symbol))
        simple = isinstance(symbol.node.expr, sympy.Symbol) and not self.floats.find_leaves(symbol)
        if recipe is None or simple:
            return self.node_of_expression(symbol.node.expr, symbol)
        if id(symbol) not in self.nodes:
            _, function, operands = recipe
            args = tuple(self.node_of(each) if type(each) in SYMBOLS else each for each in operands)
            self.nodes[id(symbol)] = self.write(function, args, symbol)
        return self.nodes[id(symbol)]

    def node_of_expression(self, expression, symbol=None):
        if expression in self.floats.known and expression not in self.nodes:
            self.nodes[expression] = self.floats.write(expression)
        if isinstance(expression, sympy.Symbol) and expression not in self.nodes:
            return self.node_of_input(expression)
        if expression.is_Integer:
            return int(expression)
        if expression not in self.nodes:
            function = CALLS.get(expression.func)
            if function is None:
                raise GivenUp(f"the expression {expression}")
            first, *others = map(self.node_of_expression, expression.args)
            for other in others:
                first = self.write(function, (first, other), None)
            node = first if others else self.write(function, (first,), None)
            node.meta["example_value"] = symbol if symbol is not None else self.make_symbol(expression)
            self.nodes[expression] = node
        return self.nodes[expression]

    def node_of_input(self, symbol):
        if symbol not in self.inputs:
            if symbol not in self.sources:
                raise GivenUp(f"the symbol {symbol}")
            node = self.writer.make_node("placeholder", str(symbol), (), {})
            node.meta["example_value"] = self.make_symbol(symbol)
            object.__setattr__(node, "_dynamo_source", self.find_source(symbol))
            self.inputs[symbol] = node
        return self.inputs[symbol]

    def find_source(self, symbol):
        node, extent, dimension = self.sources[symbol]
        kinds = {"size": TensorProperty.SIZE, "stride": TensorProperty.STRIDE}
        if extent not in kinds:
            return InputSource(self.names[node])
        return TensorPropertySource(InputSource(self.names[node]), kinds[extent], dimension)

    def make_symbol(self, expression):
        hint = self.env.replace(expression).xreplace(self.env.backed_var_to_val)
        return self.env.create_symintnode(expression, hint=int(hint) if hint.is_number else None)

    def write(self, function, args, symbol):
        site = _capture.describe_call(None)[1] if self.site is None else self.site
        node = self.writer.add_call("call_function", function, args, {}, site)
        node.meta["example_value"] = symbol
        self.calls += 1
        return node

    def write_item(self, placeholder, symbol):
        site = _capture.describe_call(None)[1] if self.site is None else self.site
        node = self.writer.add_call("call_method", "item", (placeholder,), {}, site)
        node.meta["example_value"] = symbol
        self.calls += 1
        return node

    def lay_out(self, inputs):
        try:
            self.list_arguments(inputs)
            self.settle_offsets()
            if any(describe_form(made) != form for made, form in self.forms):
                raise GivenUp("an input that gets other sizes or strides in place")
        except GivenUp as error:
            self.failure = error

    def settle_offsets(self):
        """Rely on where tensors begin in their storages, if anything did; backends do not follow symbols for that."""
        for (tensor, node), (made, _, _) in zip(self.outside, self.contexts, strict=True):
            if _capture.relies_on_offset(tensor):
                self.settle_all(made.storage_offset())
            else:
                self.offsets.add(node)
        self.outside.clear()

    def refuse_shared_memory(self, inputs):
        """A graph that writes to its inputs is compiled for the way in which they overlap, which other sizes change."""
        if self.failure is None and len({tensor.untyped_storage()._cdata for tensor in inputs}) < len(inputs):
            self.failure = GivenUp("inputs that share memory, one of which is written to")

    def list_arguments(self, inputs):
        """Lay out the graph's placeholders: a tensor's symbols in front of it. Called while the trace lasts."""
        placeholders, arguments, examples = [], [], []

        def add(node, row, example):
            placeholders.append(node)
            arguments.append(row)
            examples.append(example)

        numbers = {node: symbol for symbol, node in self.inputs.items()}
        tensors = iter(inputs)
        for node in self.writer.placeholders:
            if node in self.floats.placeholders:
                known = self.floats.placeholders[node]
                add(node, (known.node, "scalar", 0), known.tensor)
                self.tensors.append((known.tensor, known.fake))
                continue
            if node in numbers:
                symbol = numbers[node]
                add(node, self.sources[symbol], node.meta["example_value"])
                continue
            tensor = next(tensors)
            example = node.meta["example_value"]
            for symbol in list_symbols(example):
                bound = self.node_of_input(symbol)
                if bound not in placeholders and bound not in self.writer.placeholders:
                    add(bound, self.sources[symbol], bound.meta["example_value"])
            add(node, (_capture.node_of(tensor), "object", 0), tensor)
            self.tensors.append((tensor, example))
        for symbol, node in self.inputs.items():
            if node not in placeholders:
                add(node, self.sources[symbol], node.meta["example_value"])
        self.writer.placeholders = placeholders
        self.arguments, self.examples = arguments, examples

    def has_tensors(self):
        """Tell whether the graph computes anything but numbers."""
        return len(self.writer.calls) > self.calls

    def finish(self, module):
        """Put into the graph what torch assumed of numbers that it computes."""
        if self.env.deferred_runtime_asserts:
            insert_deferred_runtime_asserts(module, self.env, "alternator")
            module.recompile()

    @property
    def describer(self):
        return self.mode.fake_tensor_converter.meta_converter.describer

    @contextlib.contextmanager
    def compiling(self):
        """Have backends find the fakes with symbols."""
        converter = self.mode.fake_tensor_converter
        with torch._C.DisableTorchFunction():
            for tensor, example in self.tensors:
                if type(example) is FakeTensor:
                    converter.set_tensor_memo(tensor, example)
            # Held: torch remembers them weakly.
            self.kept = [self.mode.from_tensor(tensor, static_shapes=True) for tensor, _ in self.tensors]
        try:
            with tracing(TracingContext(self.mode)):
                yield
        finally:
            self.describer.lookup_tensor.clear()
            self.describer.lookup_storage.clear()

    def conclude(self):
        """Say what has to hold, and what the graph is called with."""
        if self.failure is not None:
            raise self.failure
        sources = [InputSource(self.names[node]) for _, node, _ in self.contexts]
        fakes = [fake for fake, _, _ in self.contexts]
        contexts = [context for _, _, context in self.contexts]
        for symbol, (node, extent, _) in self.sources.items():
            if extent == "object":
                sources.append(InputSource(self.names[node]))
                fakes.append(self.make_symbol(symbol))
                contexts.append(None)
        names = {name: node for node, name in self.names.items()}
        try:
            self.floats.take_guards()
            guards = self.env.produce_guards_verbose(
                fakes, sources, input_contexts=contexts, ignore_static=False, langs=("python",)
            )
            self.env.freeze()  # what a backend finds out later, in the backward pass, cannot be checked
            quantities, conditions = make_conditions(guards[0].exprs, names, self.offsets)
            return (quantities, conditions + self.floats.list_conditions(quantities)), self.arguments
        except ConstraintViolationError as error:  # a size that the user promised to be dynamic is not
            raise make_violation(error, self.env) from None
        except Exception as error:  # a backend has made symbols that are nobody's; what is no condition
            raise GivenUp(f"{type(error).__name__}: {error}") from None


def agrees(hint, value):
    """Tell whether a symbol may have a value: what the graph computes from data has no hint."""
    return hint is None or hint == value


def type_of(value):
    return {torch.SymInt: int, torch.SymFloat: float}.get(type(value), type(value))


def keep(tensor):
    return tensor


def has_symbols(fake):
    return fake._has_symbolic_sizes_strides


def has_same_geometry(fake, other):
    with torch._C.DisableTorchFunction():
        return fake.size() == other.size() and fake.stride() == other.stride()


def describe_form(fake):
    """List sizes, strides and offset: expressions as they were made, whatever was found out about symbols since."""
    values = (*fake.size(), *fake.stride(), fake.storage_offset())
    return [value.node._expr if isinstance(value, torch.SymInt) else value for value in values]


def list_symbols(example):
    """List the symbols that a tensor's sizes and strides are."""
    if not isinstance(example, torch.Tensor) or type(example) is not FakeTensor:
        return []
    return [
        value.node.expr
        for value in (*example.size(), *example.stride())
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol)
    ]

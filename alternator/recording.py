"""The tracer: torch's calls become nodes of a graph and run on fakes for their results.

While a trace runs, torch sends every overridable function to `Tracer.record` (csrc/record/session.cpp puts a function
mode on torch's stack), and the recorder tells of calls that set torch's state (`Tracer.note`). torch_calls.py has the
rules, graphs.py the graph. Conventions of the graph are TorchDynamo's: `operator.add` for `+`, `call_method` for
methods of tensors, torch's functions as they were called, placeholders named after their source, one tuple of outputs.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import types
import typing
import warnings

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.utils._device import _device_constructors

from alternator import _capture
from alternator.around import Around
from alternator.deferring import Deferrals
from alternator.graphs import FakeTensor, GraphWriter, make_example
from alternator.torch_calls import (
    SYMBOLIC_RULES,
    find_rule,
    holds_tensor,
    make_table,
    record_call,
    tell_metadata,
    write_type,
)
from alternator.torch_errors import GivenUp, TorchFailed, Unsupported
from alternator.torch_random import count_draws, follow_seed
from alternator.torch_states import close_scopes, find_note

IN_PLACE_NAMES = [
    "add",
    "and",
    "concat",
    "floordiv",
    "lshift",
    "matmul",
    "mod",
    "mul",
    "or",
    "pow",
    "rshift",
    "sub",
    "truediv",
    "xor",
]
fakes = _capture.fakes
map_tensors = _capture.map_tensors
describe_call = _capture.describe_call


class Known:
    """A tensor that the trace knows: from outside or made by it."""

    __slots__ = ("closed", "fake", "leaf", "name", "node", "real")

    def __init__(self, real, fake, node, name=None):
        self.leaf = None  # how it is made in front of the graph, if it is (around.py)
        self.real = real  # what the program has if it is from outside, else None
        self.fake = fake
        self.node = node  # None as long as a tensor from outside is no input of the graph
        self.name = name


class Closed(Known):
    """One that the graph must not use any more, for the reason in `closed`."""

    __slots__ = ()

    @property
    def node(self):
        raise Unsupported(self.closed)


class Gone(Closed):
    """One that the program must not use any more."""

    __slots__ = ()

    @property
    def fake(self):
        raise Unsupported(self.closed)


FAKE, NODE = Known.fake, Known.node
node_behind, fake_behind = NODE.__get__, FAKE.__get__


class Compiling:
    """torch.compiler's flag, for is_compiling(): one for all threads, on while any of them traces."""

    traces = 0
    was_on = False

    # There is no call in these, so no other thread gets its turn in the middle.
    @classmethod
    def begin(cls):
        if cls.traces == 0:
            cls.was_on = torch.compiler._is_compiling_flag
        cls.traces += 1
        torch.compiler._is_compiling_flag = True

    @classmethod
    def end(cls):
        cls.traces -= 1
        if cls.traces == 0:
            torch.compiler._is_compiling_flag = cls.was_on


class Tracer:
    """Records one trace."""

    def __init__(self):
        self.mode = fakes.FakeMode()
        self.rules = make_table()
        self.writer = GraphWriter()
        self.known = {}  # id of a tensor -> Known, which keeps it alive
        self.keeps_order = False  # whoever runs the graph runs its nodes one after the other, as they are
        self.versions = []  # (fake, its version when it came in or None), of tensors with memory from outside
        self.inputs = []  # those of them that are inputs of the graph, in order
        self.outputs = []
        self.states = {}  # setter of a state -> (arguments that set it as it was, arguments that set it as it is now)
        self.scopes = []  # (object of the scope, node that opened it, function that closes it)
        self.around = Around()
        self.deferrals = Deferrals()
        self.flags = {}  # number of an input -> requires_grad that it gets in front of the graph
        self.dtype = None  # the default dtype outside of the graph and inside, if they are two
        self.altered = []  # tensors from outside of which something but data is changed around the graph
        self.leaves = []  # tensors that are made in front of the graph
        self.grads = {}  # id of a tensor -> its gradient, if the trace set it
        self.returning = set()  # nodes that give one of their arguments
        self.unchanging = []  # fakes whose memory must not be written to
        self.by_storage = {}  # storage -> tensors with that memory, of the first `sorted` known ones
        self.sorted = 0
        self.grad_enabled = torch.is_grad_enabled()
        self.device = find_default_device()
        self.dynamic = find_dynamics(None)
        self.shapes = None  # symbols, if there are any (shapes.py)
        self.symbols = None  # what the core is told of them in the end
        follow_seed()
        self.first_draw = count_draws()
        self.last_draw = None  # the random generator is set behind the graph, which must draw nothing more
        self.sets_generator = False
        self.relies_on_offsets = False  # where an input begins in its storage
        self.unusual = []  # reasons to record every call here, not in csrc/record/quick_calls.cpp

    def begin(self):
        """Begin the trace; end() ends it."""
        Compiling.begin()

    def add_rules(self, rules):
        """Take rules that are those of this trace only, before it begins."""
        self.rules = self.rules | rules

    # ---- While tracing ---------------------------------------------------------------------------------------------

    def record(self, func, types, args=(), kwargs=None):
        """Record a call that torch dispatches; return what the program sees."""
        try:
            rule = self.rules.get(func)
            if rule is None:
                rule = self.rules[func] = find_rule(func)
            if self.shapes is not None and rule not in SYMBOLIC_RULES:
                self.do_without_symbols(args, kwargs)
            result = rule(self, func, args, self.place(func, kwargs or {}))
            if self.last_draw is not None and self.last_draw != count_draws():
                raise Unsupported("random numbers are drawn after the generator's state was set")
            return result
        except (MemoryError, RecursionError):
            raise  # no part of the program, and no fault of the tracer
        except Exception as error:
            self.give_up(error)
            raise

    def quick_parts(self):
        """Give csrc/record/quick_calls.cpp what it does the same with; None if no call is to be quick."""
        if self.device is not None:
            return None
        writer = self.writer
        return (
            *(self.unusual, self.rules, record_call, tell_metadata),
            *(self.known, Known, FAKE, NODE, self.fake_of, self.node_of, self.known_node),
            *(self.mode, name_target, writer.nodes, writer.calls, writer.sites, FakeTensor, targets),
        )

    def place(self, func, kwargs):
        """Say where a factory makes its tensor, if the program set a default device."""
        if self.device is None or kwargs.get("device") is not None or func not in _device_constructors():
            return kwargs
        return kwargs | {"device": self.device}

    def note(self, func, args, kwargs):
        """Record a call that sets torch's state, before it happens."""
        find_note(func)(self, func, args, kwargs or {})

    def give_up(self, error):
        if isinstance(error, GivenUp):
            _capture.abort("StaticShapes", str(error))
        elif isinstance(error, TorchFailed) and fakes.is_data_dependent(error.__cause__):
            _capture.abort("DataDependentOperator", str(error.__cause__))
        elif isinstance(error, TorchFailed):
            _capture.abort("TorchException", str(error))
        elif isinstance(error, Unsupported):
            _capture.abort(error.reason, str(error))
        else:
            text = f"{type(error).__name__}: {error}"
            _capture.abort("Internal", text)
            warnings.warn(f"alternator: the tracer failed, please report it. {text}", stacklevel=2)

    def compute(self, func, args, kwargs):
        """Run on fakes."""
        given, given_kwargs = args, kwargs
        try:
            args = map_tensors(args, self.fake_of, self.known, FAKE)
            if kwargs:
                kwargs = map_tensors(kwargs, self.fake_of, self.known, FAKE)
        except TypeError as error:
            raise Unsupported(str(error)) from None
        try:
            result = self.mode.call(func, args, kwargs)
        except (MemoryError, RecursionError):
            raise
        except NotImplementedError as error:
            raise Unsupported(str(error) or f"{name_target(func)[1]}", "NoFake") from error
        except Exception as error:
            if isinstance(error, UnsupportedOperatorException) or "no fake impl registered" in str(error):
                raise Unsupported(str(error), "NoFake") from error
            if self.shapes is not None and self.shapes.has_unknown:
                raise Unsupported(str(error), "DataDependentOperator") from error
            raise TorchFailed(f"{type(error).__name__}: {error}") from error
        if self.unchanging and any(map(self.has_changed, self.unchanging)):
            raise Unsupported("a write to memory from outside that an autograd leaf uses")
        if self.shapes is not None and holds_tensor(result):
            self.shapes.follow(func, given, given_kwargs, result, self.fake_of)
        return result

    def know(self, tensor):
        """Take a new tensor that is no result of a call in the graph."""
        self.known[id(tensor)] = known = Known(None, tensor, None)
        return known

    def find(self, tensor):
        return self.known.get(id(tensor)) or self.meet(tensor)

    def fake_of(self, tensor):
        known = self.known.get(id(tensor))
        if known is None:
            return tensor if isinstance(tensor, type) else self.meet(tensor).fake
        return known.fake

    def node_of(self, tensor):
        if isinstance(tensor, type):
            return write_type(tensor)
        known = self.find(tensor)
        if known.node is None:
            known.node = self.writer.add_placeholder(known.name, known.real, known.fake)
            if self.shapes is not None and self.shapes.is_symbolic(known.fake):
                known.node.meta["example_value"] = self.shapes.example_of(known.fake)
            _capture.add_input(known.real)
            self.inputs.append(known.real)
        return known.node

    def meet(self, tensor):
        """Get to know a tensor from outside."""
        name = _capture.name_of(tensor)
        if name is None:
            raise Unsupported("a tensor that the trace did not get from the arguments, the globals or what they hold")
        # A subclass is not asked for anything: its __torch_function__ is the program's code.
        if not is_plain(tensor):
            _capture.watch(tensor, ())
            raise Unsupported(f"a tensor of class {type(tensor).__name__}, or one that is not strided")
        dimensions = self.find_dimensions(tensor, name)
        _capture.watch(tensor, dimensions.free if dimensions else ())
        fake = self.mode.make(tensor)
        known = self.known[id(tensor)] = self.known[id(fake)] = Known(tensor, fake, None, name)
        self.watch_version(fake)
        if dimensions and dimensions.free:
            self.use_symbols().add_input(tensor, fake, name, dimensions)
        return known

    def watch_version(self, fake):
        self.versions.append((fake, None if fake.is_inference() else fake._version))

    def is_from_outside(self, tensor):
        return self.find(tensor).real is not None

    @staticmethod
    def node_behind(known):
        return node_behind(known)

    @staticmethod
    def fake_behind(known):
        return fake_behind(known)

    # ---- Symbols (shapes.py) ---------------------------------------------------------------------------------------

    def find_dimensions(self, tensor, name):
        """Find the dimensions whose sizes may be others next time; None in the ordinary case."""
        moving = _capture.moving_sizes(name)
        if (not moving and not self.dynamic.all and not has_marks(tensor)) or _capture.is_static():
            return None
        from alternator.shapes import Dimensions

        return Dimensions(tensor, moving, self.dynamic)

    def has_moving_numbers(self):
        """Tell whether every number among the arguments may be another one next time."""
        return self.dynamic.all and self.dynamic.numbers

    def use_symbols(self):
        if self.shapes is None:
            from alternator.shapes import Shapes

            self.shapes = Shapes(self.writer)
            self.unusual.append("symbols")
        return self.shapes

    def do_without_symbols(self, args, kwargs):
        """Prepare for a rule that knows nothing of symbols."""
        self.shapes.settle_numbers((args, kwargs or {}))
        if self.shapes.touches((args, kwargs or {}), self.fake_of):
            raise GivenUp("a call of torch that is not recorded as it is")

    def reads_items(self, tensor):
        """Tell whether the graph computes the numbers that the program reads out of a tensor, as TorchDynamo's may."""
        config = sys.modules.get("torch._dynamo.config")
        if config is None or not config.capture_scalar_outputs or _capture.is_static():
            return False
        with torch._C.DisableTorchFunction():
            fake = self.fake_of(tensor)
            return fake.numel() == 1 and (fake.dtype.is_floating_point or fake.dtype in INTEGERS)

    def read_item(self, tensor):
        """Read a number out of a tensor; None if that is a break."""
        if not self.reads_items(tensor):
            return None
        write = functools.partial(self.write_nodes, "call_method", "item", (self.node_of(tensor),))
        return self.use_symbols().read_item(tensor, self.fake_of(tensor), write)

    def name_number(self, name, node, value):
        """Find the symbol of a number that is another one at each call; None if it is to be a constant."""
        if not self.dynamic.numbers or (_capture.has_fixed_floats() if type(value) is float else _capture.is_static()):
            return None
        return self.use_symbols().name_number(name, node, value)

    def combine(self, operation, a, b, left, right):
        return self.shapes.combine(operation, a, b, left, right)

    def negate(self, symbol):
        return self.shapes.compute(operator.neg, symbol)

    def decide(self, comparison, a, b, left, right):
        return self.shapes.decide(comparison, a, b, left, right)

    def has_floats(self):
        return self.shapes is not None and bool(self.shapes.floats.known)

    def has_value(self, symbol):
        return self.shapes.has_value(symbol)

    def settle(self, symbol):
        return self.shapes.settle(symbol)

    def number_function(self, callable):
        return None if self.shapes is None else self.shapes.number_function(callable)

    def call_number(self, callable, function, symbols, values):
        return self.shapes.call_number(callable, function, symbols, values)

    def measure(self, tensor):
        """Find the symbol that len() of a tensor gives; None if it gives a constant."""
        try:
            with torch._C.DisableTorchFunction():
                fake = self.fake_of(tensor)
                return None if self.shapes is None else self.shapes.measure(fake)
        except Unsupported:
            return None

    def conclude(self):
        """Tell the core what has to hold; False if the trace has to be made again without symbols."""
        try:
            self.symbols = None if self.shapes is None else self.shapes.conclude()
        except GivenUp:
            return False
        return True

    def example(self, tensor):
        """Make the example value of a node."""
        found = None if self.shapes is None else self.shapes.example_of(tensor)
        return make_example(tensor) if found is None else found

    # ---- Memory ----------------------------------------------------------------------------------------------------

    def list_sharing(self, fake):
        """List the known tensors that have the memory of a fake."""
        for known in itertools.islice(self.known.values(), self.sorted, None):
            self.sort(known)
        self.sorted = len(self.known)
        return self.by_storage.get(fake.untyped_storage()._cdata, [])

    def sort(self, known):
        sharing = self.by_storage.setdefault(fake_behind(known).untyped_storage()._cdata, [])
        if known not in sharing:
            sharing.append(known)

    def has_changed(self, fake):
        """Tell whether the memory of a fake, which is from outside, was written to."""
        storage = fake.untyped_storage()._cdata
        return any(
            storage == each.untyped_storage()._cdata and (version is None or each._version != version)
            for each, version in self.versions
        )

    def alter(self, known):
        """Note that more than the data of a tensor is changed, if it is one from outside."""
        if known.real is not None:
            self.altered.append(known.real)

    def close(self, known, reason, wholly=False):
        """Have the next use of a tensor end the trace."""
        known.closed = reason
        known.__class__ = Gone if wholly else Closed

    # ---- Calls that are put off (deferring.py) ---------------------------------------------------------------------

    def make_mark(self, callable, tensor, spec):
        return self.deferrals.make_mark(self, callable, tensor, spec)

    def holds_texts(self):
        return bool(self.deferrals.pending)

    def is_deferring(self):
        return self.deferrals.calls > 0

    # ---- Nodes -----------------------------------------------------------------------------------------------------

    def record_call(self, func, args, kwargs, result):
        """Write the node of a call, as the program wrote it if it made the call itself."""
        written, site, names = describe_call(func)
        if names is not None:
            self.name_nodes(names)
        kind, target = name_target(func)
        if written is not None:
            operation, written_args, written_kwargs = written
            if operation is None:
                args, kwargs = written_args, self.place(func, written_kwargs or {})
            elif operation is ...:
                # Rows of a tensor with a history must not be written to: `unbind` says so, `x[0]` does not.
                if func is torch.Tensor.unbind and not any(row.requires_grad for row in result):
                    return self.write_rows(args[0], result, site)
            elif any(isinstance(operand, torch.Tensor) for operand in written_args):
                kind, target, args, kwargs = "call_function", operation, written_args, {}
        return self.write_with(site, kind, target, args, kwargs, result)

    def write(self, kind, target, args, kwargs, result):
        _, site, names = describe_call(None)
        if names is not None:
            self.name_nodes(names)
        return self.write_with(site, kind, target, args, kwargs, result)

    def write_nodes(self, kind, target, args, kwargs=None):
        """Write a call that the program did not make."""
        return self.writer.add_call(kind, target, args, kwargs or {}, describe_call(None)[1])

    def write_with(self, site, kind, target, args, kwargs, result):
        args = map_tensors(args, self.node_of, self.known, NODE)
        if kwargs:
            kwargs = map_tensors(kwargs, self.node_of, self.known, NODE)
        if self.shapes is not None:
            args, kwargs = self.shapes.write_numbers(args), self.shapes.write_numbers(kwargs)
        node = self.writer.add_call(kind, target, args, kwargs, site)
        if self.shapes is not None:
            self.shapes.bind(node)
        return self.adopt_all(result, node, site)

    def adopt_all(self, result, node, site):
        """Take what a call gave."""
        if isinstance(result, torch.Tensor):
            return self.adopt(result, node)
        return self.adopt_items(result, node, site)

    def write_rows(self, tensor, result, site):
        """Write an iteration over a tensor: its rows, one by one."""
        parent = self.node_of(tensor)
        return tuple(self.adopt(row, self.writer.add_item(parent, i, site)) for i, row in enumerate(result))

    def adopt(self, tensor, node):
        """Take a tensor that a call gave; return what the program sees."""
        known = self.known.get(id(tensor))
        if known is not None:
            if node.target in IN_PLACE:  # x += 1: from now on the program's variable is what this gave
                known.node = node
            self.returning.add(node)
            node.meta["example_value"] = self.example(tensor)
            return tensor if known.real is None else known.real
        if not (fakes.is_fake(tensor) or tensor.is_meta) or type(tensor) is not torch.Tensor:
            raise Unsupported(f"{node.target} gives a tensor that is none of the trace's")
        if tensor.requires_grad and tensor.is_leaf and not tensor._is_view():
            raise Unsupported("a new tensor requires grad")
        self.known[id(tensor)] = Known(None, tensor, node)
        node.meta["example_value"] = self.example(tensor)
        return tensor

    def adopt_items(self, result, node, site):
        if result is None:
            return None
        if not isinstance(result, (tuple, list)):
            raise Unsupported(f"{node.target} gives {type(result).__name__}")
        items = []
        for index, item in enumerate(result):
            if isinstance(item, torch.Tensor):
                items.append(self.adopt(item, self.writer.add_item(node, index, site)))
            elif item is None:
                items.append(None)
            else:
                items.append(self.adopt_items(item, self.writer.add_item(node, index, site), site))
        node.meta["example_value"] = tuple(item if item is None else self.example_of(item) for item in items)
        if all(map(_is, items, result)):
            return result
        return items if type(result) is list else tuple(items) if type(result) is tuple else type(result)(items)

    def example_of(self, item):
        if isinstance(item, torch.Tensor):
            return self.known[id(item)].node.meta["example_value"]
        return tuple(map(self.example_of, item))

    def name_nodes(self, names):
        for tensor, name in names:
            node = self.known_node(tensor)
            if node is not None:
                self.writer.name_node(node, name)

    def known_node(self, tensor):
        """Return the node of a tensor, if it has one so far."""
        known = self.known.get(id(tensor))
        return known and node_behind(known)

    # ---- States ----------------------------------------------------------------------------------------------------

    def remember_state(self, setter, before, now):
        """Remember how to put a state back, and how the function leaves it."""
        self.states[setter] = (self.states[setter][0] if setter in self.states else before, now)

    # ---- The end ---------------------------------------------------------------------------------------------------

    def output_of(self, tensor):
        """Tell which output of the graph a fake or a symbol is; -1 if it is none of ours."""
        if self.shapes is not None and not isinstance(tensor, torch.Tensor):
            return self.output_of_symbol(tensor)
        known = self.known.get(id(tensor))
        if known is None or known.real is not None or type(known) is Gone:
            return -1
        return self.value_of(known)

    def output_of_symbol(self, symbol):
        outputs = self.shapes.outputs
        if id(symbol) not in outputs:
            try:
                node = self.shapes.give_out(symbol)
            except GivenUp as error:
                self.give_up(error)
                raise
            if not isinstance(node, torch.fx.Node):
                return -1
            outputs[id(symbol)] = Known(None, symbol, node)
        return self.value_of(outputs[id(symbol)])

    def value_of(self, known):
        """Number a tensor that is given out, or that something is done to behind the graph."""
        for number, output in enumerate(self.outputs):
            if output is known:
                return number
        self.outputs.append(known)
        return len(self.outputs) - 1

    def has_operations(self):
        """Tell whether there is anything to run. Grad mode is set by the core as well."""
        computes = any(call.target is not torch._C._set_grad_enabled for call in self.writer.calls)
        numbers = self.shapes is not None and self.shapes.outputs
        return computes or bool(numbers or self.flags or self.leave_states()) or not self.around.is_idle()

    def end(self, finished):
        """End the trace; if it is to become a graph, list the inputs that it writes to.

        None if it changes tensors from outside whose version counters do not tell.
        """
        try:
            self.undo_states()
        finally:
            Compiling.end()
        if not finished:
            return []
        if self.sets_generator:
            _capture.note_draw()  # the generator is not what it was
        names = _capture.take_names()
        if names is not None:
            self.name_nodes(names)
        if self.shapes is not None:
            self.shapes.lay_out(self.inputs)
        self.writer.find_origins()
        self.relies_on_offsets = any(map(_capture.relies_on_offset, self.inputs))
        changed = [fake for fake, version in self.versions if version is None or fake._version != version]
        if changed and self.shapes is not None:
            self.shapes.refuse_shared_memory(self.inputs)
        written = [self.known.get(id(fake)) for fake in changed]
        if any(known is None or known.real is None for known in written) or any(
            map(torch.Tensor.is_inference, changed)
        ):
            return None
        return list(map(self.number_of, written))

    def make_graph(self):
        """Make the torch.fx graph module, None if it would be empty, its inputs, and what is done around it."""
        close_scopes(self)
        self.deferrals.settle(self)
        outputs, around = [], self.around
        for known in self.outputs:
            if known.real is None and known.leaf is None:
                around.picks.append((False, len(outputs)))
                outputs.append(node_behind(known))
            else:
                around.picks.append((True, self.number_of(known)))
        around.flags = [
            (number, flag) for number, flag in self.flags.items() if self.inputs[number].requires_grad != flag
        ]
        around.states = self.leave_states()
        around.former_states = [(setter, before) for setter, (before, _) in reversed(self.states.items())]
        if not self.writer.calls and not (self.shapes is not None and self.shapes.outputs):
            return None, self.inputs, around
        around.dtype = self.dtype
        module = self.writer.finish(outputs)
        module.meta["relies_on_offsets"] = self.relies_on_offsets
        return module, self.inputs, around

    def number_of(self, known):
        """Tell which input of the graph a tensor is."""
        if known.leaf is not None:
            return len(self.inputs) + self.leaves.index(known)
        return next(number for number, tensor in enumerate(self.inputs) if tensor is known.real)

    def undo_states(self):
        for setter, (before, _) in reversed(self.states.items()):
            setter(*before)

    def leave_states(self):
        """List the calls that set torch's state as the function leaves it, where that is not as it was."""
        return [(setter, now) for setter, (before, now) in self.states.items() if now != before]


class Dynamics(typing.NamedTuple):
    """Which sizes and numbers are no constants."""

    all: bool  # from the first call on
    automatic: bool  # when they have changed
    numbers: bool  # not sizes alone


def find_dynamics(dynamic):
    """Find out what `dynamic` of torch.compile means, with TorchDynamo's settings."""
    config = sys.modules.get("torch._dynamo.config")
    if dynamic is not None or config is None:
        return Dynamics(bool(dynamic), dynamic is None, dynamic is not False)
    everything = not config.assume_static_by_default
    automatic = config.automatic_dynamic_shapes or everything
    return Dynamics(everything, automatic, automatic and not config.specialize_int)


INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}


def is_plain(tensor):
    """Tell whether a tensor is one of torch's own classes, with sizes, strides and ordinary numbers."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return tensor.layout == torch.strided and not tensor.is_nested


MARKS = (
    *("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices"),
    *("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices"),
)


def has_marks(tensor):
    """Tell whether torch._dynamo.mark_dynamic, or one of its like, was called on a tensor."""
    return any(hasattr(tensor, mark) for mark in MARKS)


def find_default_device():
    """Find the device of torch.set_default_device; nothing is captured while any other function mode is on."""
    return torch._C._get_function_stack_at(0).device if torch._C._len_torch_function_stack() else None


def _is(a, b):
    return a is b


IN_PLACE = {getattr(operator, f"i{name}") for name in IN_PLACE_NAMES}
targets = {}  # function -> kind and target of its node


def name_target(func):
    """Tell kind and target of the node for a function."""
    found = targets.get(func)
    if found is None:
        if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            name = func.__name__
        else:  # methods in Python; some are there under other names than their own
            name = next((name for name, value in vars(torch.Tensor).items() if value is func), None)
        found = targets[func] = ("call_function", func) if name is None else ("call_method", name)
    return found

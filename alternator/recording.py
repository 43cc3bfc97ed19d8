"""The tracer: torch's calls become nodes of a graph and run on fakes for their results.

While a trace runs, torch sends every overridable function to `Tracer.record` (csrc/record/session.cpp puts a function
mode on torch's stack). Conventions of the graph are TorchDynamo's: `operator.add` for `+`, `call_method` for methods of
tensors, torch's functions as they were called, placeholders named after their source, one tuple of outputs.
"""

from __future__ import annotations

import operator
import re
import types

import torch
from torch.utils._pytree import tree_map

from alternator import _capture

fakes = _capture.fakes

# Attributes and methods that tell of a tensor what its metadata tell: constants of the trace, no nodes.
METADATA_ATTRIBUTES = {
    *("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "is_sparse", "is_cuda", "is_cpu"),
    *(
        "is_meta",
        "is_quantized",
        "is_nested",
        "is_mkldnn",
        "is_mps",
        "is_xpu",
        "itemsize",
        "nbytes",
        "is_ort",
        "is_vulkan",
    ),
    *("names", "is_sparse_csr", "is_ipu", "is_xla", "is_mtia", "is_maia"),
}
METADATA_METHODS = {
    *("size", "dim", "stride", "numel", "nelement", "ndimension", "element_size", "storage_offset", "is_contiguous"),
    *(
        "is_floating_point",
        "is_complex",
        "is_signed",
        "__len__",
        "get_device",
        "is_inference",
        "is_same_size",
        "is_conj",
    ),
    *("is_neg", "type", "has_names", "is_tensor"),
}
NODE_ATTRIBUTES = {"T", "mT", "H", "mH", "real", "imag"}
STATE_SETTERS = {torch._C._set_grad_enabled}


class Unsupported(Exception):
    """A use of torch that cannot be captured."""


class Tracer:
    """Records one trace."""

    def __init__(self):
        self.mode = fakes.FakeMode()
        self.rows = []  # (kind, target, args, kwargs, result) with tensors in place
        self.inputs = {}  # number -> (real tensor, its fake, name)
        self.fakes = {}  # id of a fake -> the fake: alive as long as the trace
        self.outputs = []
        self.was_compiling = torch.compiler._is_compiling_flag
        torch.compiler._is_compiling_flag = True  # programs ask torch.compiler.is_compiling()
        self.versions = {}  # number of an input -> the version of its fake when it came in

    # ---- While tracing -----------------------------------------------------------------------------------------

    def record(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            return self.run(func, args, kwargs)
        except Exception as error:
            if fakes.is_data_dependent(error):
                _capture.abort(True, str(error))
            raise

    def run(self, func, args, kwargs):
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            attribute = func.__self__.__name__
            if attribute in METADATA_ATTRIBUTES:
                return self.compute(func, args, kwargs)
            if attribute in NODE_ATTRIBUTES:
                return self.add("call_function", getattr, (args[0], attribute), {}, self.compute(func, args, kwargs))
            raise Unsupported(f"the attribute {attribute} of a tensor")
        if name in METADATA_METHODS:
            return self.compute(func, args, kwargs)
        if func in STATE_SETTERS:
            if func is torch._C._set_grad_enabled and args == (torch.is_grad_enabled(),):
                return None  # as it is already
            self.add("call_function", func, args, kwargs, None)
            return func(*args, **kwargs)
        if kwargs.get("out") is not None or name in (
            "__set__",
            "__delete__",
            "requires_grad_",
            "set_",
            "resize_",
            "backward",
        ):
            raise Unsupported(name)
        result = self.compute(func, args, kwargs)
        kind, target, shown_args, shown_kwargs = self.name_target(func, name, args, kwargs)
        return self.add(kind, target, shown_args, shown_kwargs, result)

    def compute(self, func, args, kwargs):
        """Run on fakes."""
        args, kwargs = tree_map(self.fake_of, (args, kwargs))
        with self.mode, torch._C.DisableTorchFunction():
            return func(*args, **kwargs)

    def fake_of(self, value):
        if not isinstance(value, torch.Tensor) or id(value) in self.fakes:
            return value
        found = _capture.input_of(value)
        if found is None:
            raise Unsupported("a tensor that the trace did not get from its arguments or from what they hold")
        number, name = found
        if number not in self.inputs:
            if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
                raise Unsupported(f"a tensor of class {type(value).__name__}, layout {value.layout}")
            fake = self.mode.make(value)
            self.inputs[number] = (value, fake, name)
            self.versions[number] = fake._version
        return self.inputs[number][1]

    def name_target(self, func, name, args, kwargs):
        current = _capture.current_operator()
        if current is not None and not kwargs:
            operator_name, operands = current
            if any(isinstance(operand, torch.Tensor) for operand in operands):
                return "call_function", getattr(operator, operator_name), operands, {}
        if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)) or (
            isinstance(func, types.FunctionType) and getattr(torch.Tensor, name, None) is func
        ):
            return "call_method", name, args, kwargs
        return "call_function", func, args, kwargs

    def add(self, kind, target, args, kwargs, result):
        leaves = self.check_result(target, result)
        for leaf in leaves:
            self.fakes[id(leaf)] = leaf
        self.rows.append((kind, target, args, kwargs, result))
        return result

    def check_result(self, target, result):
        """Return the fakes of a result; refuse one with anything else in it."""
        if result is None:
            return []
        if isinstance(result, torch.Tensor):
            return [result]
        if isinstance(result, (tuple, list)) and all(isinstance(leaf, torch.Tensor) for leaf in result):
            return list(result)
        raise Unsupported(f"{target} gives {type(result).__name__}")

    def output_of(self, tensor):
        """Tell which output of the graph a fake is; -1 if it is none of ours."""
        if id(tensor) not in self.fakes:
            return -1
        for number, output in enumerate(self.outputs):
            if output is tensor:
                return number
        self.outputs.append(tensor)
        return len(self.outputs) - 1

    def end(self):
        torch.compiler._is_compiling_flag = self.was_compiling

    def has_operations(self):
        return bool(self.rows)

    def mutates_inputs(self):
        return any(self.inputs[number][1]._version != version for number, version in self.versions.items())

    # ---- Afterwards --------------------------------------------------------------------------------------------

    def make_graph(self):
        """Make the torch.fx graph module, and the real tensors that are its inputs."""
        graph = torch.fx.Graph()
        nodes, examples = {}, []
        for number in sorted(self.inputs):
            real, fake, name = self.inputs[number]
            node = graph.placeholder(re.sub(r"[^0-9a-zA-Z]+", "_", name) or "input")
            node.meta["example_value"] = fake
            nodes[id(real)] = nodes[id(fake)] = node
            examples.append(real)

        def node_of(value):
            return nodes.get(id(value), value) if isinstance(value, torch.Tensor) else value

        for kind, target, args, kwargs, result in self.rows:
            args, kwargs = tree_map(node_of, (args, kwargs))
            node = graph.create_node(kind, target, tuple(args), dict(kwargs))
            if isinstance(result, torch.Tensor):
                node.meta["example_value"] = result
                nodes[id(result)] = node
            elif result is not None:
                for index, leaf in enumerate(result):
                    item = graph.call_function(operator.getitem, (node, index))
                    item.meta["example_value"] = leaf
                    nodes[id(leaf)] = item
        graph.output(tuple(nodes[id(tensor)] for tensor in self.outputs))
        for node in list(reversed(graph.nodes)):
            if not node.users and node.target is operator.getitem and node.op == "call_function":
                graph.erase_node(node)
        return torch.fx.GraphModule(torch.nn.Module(), graph), examples

"""Torch.fx graphs in TorchDynamo's conventions: nodes as a trace makes them, their metadata, the backend's module."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import sys
import traceback
import weakref

import torch
from torch._guards import CompileId, Source
from torch.fx.graph import _illegal_names

from alternator import _capture, events
from alternator.graph_modules import make_graph_module
from alternator.torch_errors import Unsupported

ILLEGAL = re.compile("[^0-9a-zA-Z]+")
# A module's children and tensors are looked up in dicts; the path of a module does not show them.
REGISTRY = re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])([^'\"\]]+)\1\]")

graph_numbers = itertools.count()


class FakeTensor(torch.Tensor):
    """The example value of a node: the metadata of a tensor, without data."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def __class__(self):
        """Pass for torch's: readable graphs show the class of any other tensor."""
        return torch._subclasses.FakeTensor

    def __repr__(self, *, tensor_contents=None):
        facts = [f"size={tuple(self.shape)}"]
        if self.dtype is not torch.get_default_dtype():
            facts.append(f"dtype={self.dtype}")
        if self.device.type != "cpu":
            facts.append(f"device={str(self.device)!r}")
        if self.requires_grad:
            facts.append("requires_grad=True")
        return f"FakeTensor(..., {', '.join(facts)})"

    def __deepcopy__(self, memo):
        return _capture.fakes.make_example(self, FakeTensor)

    def __reduce_ex__(self, protocol):
        raise TypeError("a fake tensor cannot be pickled")


class InputSource(Source):
    """How an input of a graph is reached, for backends that tell inputs apart by it."""

    def __init__(self, text: str):
        self._text = text

    @property
    def _name_template(self) -> str:
        return self._text

    def __eq__(self, other):
        return isinstance(other, InputSource) and self._text == other._text

    def __hash__(self):
        return hash(self._text)

    def __reduce__(self):
        return InputSource, (self._text,)

    def __repr__(self):
        return f"InputSource({self._text})"


class GraphWriter:
    """One graph under construction."""

    def __init__(self):
        self.graph = torch.fx.Graph()
        self.nodes = _capture.NodeMaker(self.graph, find_candidate, is_plain)
        self.name_node = self.nodes.name_node  # (node, name): after the variable that its value is first stored in
        self.make_node = self.nodes.make_node  # (kind, target, args, kwargs): one that is not in its place yet
        self.placeholders = []
        self.targets = set()  # of the placeholders
        self.sources = set()  # theirs
        self.leaves = []  # placeholders of leaves of autograd, behind the others
        self.calls = []
        self.sites = []  # for each call the number of its frames, and its first name
        self.frames = ()  # the frames themselves, if somebody listens to events
        self.bodies = {}  # name -> the module of a graph inside this one (bodies.py)
        self.body_sites = []  # (node, site) of their calls
        self.closed = None  # why there can be no further call
        self.origins = []  # for each number of frames: their text, and the modules that they are calls of

    # ---- While tracing -----------------------------------------------------------------------------------------

    def add_placeholder(self, name, tensor, fake):
        """Make an input; `name` is its source."""
        node = self.make_placeholder(name)
        self.describe_input(node, name, type(tensor), fake)
        if hasattr(tensor, "_dynamo_static_input_type"):  # torch._dynamo.mark_static_address
            node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"}
        return node

    def add_number(self, name, symbol):
        """Make an input that is a number."""
        node = self.make_placeholder(name)
        self.set_source(node, name)
        node.meta["example_value"] = symbol
        return node

    def make_placeholder(self, name):
        target = wanted = make_legal(name)
        number = 0
        while target in self.targets:  # two sources may read alike: variables of two frames
            number += 1
            target = f"{wanted}_{number}"
        self.targets.add(target)
        node = self.make_node("placeholder", target, (), {})
        self.placeholders.append(node)
        return node

    def set_source(self, node, name):
        """Tell backends where an input comes from; they take two of one source for the same input."""
        name = name if name not in self.sources else f"{name}.{node}"
        self.sources.add(name)
        object.__setattr__(node, "_dynamo_source", InputSource(name))

    def add_leaf(self, cls, fake):
        """Make an input that is made in front of the graph."""
        name = f"made_{len(self.leaves)}"
        node = self.make_node("placeholder", name, (), {})
        self.leaves.append(node)
        self.describe_input(node, name, cls, fake)
        return node

    def describe_input(self, node, name, cls, fake):
        self.set_source(node, name)
        # A tensor that a module holds stays where it is from call to call.
        static = "._parameters[" in name or "._buffers[" in name
        node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if static else {}
        node.meta["example_value"] = make_example(fake)
        if cls is torch.nn.Parameter:
            node.meta["example_value"]._is_param = True

    def show_again(self, node, fake):
        """Take the metadata of an input as they are now."""
        is_parameter = hasattr(node.meta["example_value"], "_is_param")
        node.meta["example_value"] = make_example(fake)
        if is_parameter:
            node.meta["example_value"]._is_param = True

    def add_call(self, kind, target, args, kwargs, site):
        if self.closed is not None:
            raise Unsupported(self.closed)
        node = self.make_node(kind, target, args, kwargs)
        self.calls.append(node)
        self.sites.append((site, node.name))
        return node

    def add_item(self, parent, index, site):
        return self.add_call("call_function", operator.getitem, (parent, index), {}, site)

    # ---- Afterwards --------------------------------------------------------------------------------------------

    def find_origins(self):
        """Ask the trace, before it ends, for the frames that led to nodes."""
        paths = {}
        sites = _capture.list_sites()
        if events.listeners:
            self.frames = sites
        for outer, code, offset, module, calls in sites:
            text, modules = self.origins[outer] if outer >= 0 else ("", {})
            text += find_frame_text(code, offset)
            if module is not None and outer >= 0:  # the traced module itself is not shown
                if id(module) not in paths:
                    name = _capture.name_of(module)
                    paths[id(module)] = (make_path(name), find_class(module)) if name else None
                if paths[id(module)] is not None:
                    key = str(id(module)) if calls <= 1 else f"{id(module)}@{calls - 1}"
                    modules = modules | {key: paths[id(module)]}
            self.origins.append((text, modules))

    def finish(self, outputs):
        self.write_origins()
        output = self.make_node("output", "output", (tuple(outputs),), {})
        self.nodes.link([*self.placeholders, *self.leaves, *self.calls, output])
        self.remove_idle_nodes()
        module = make_graph_module(self.graph, self.bodies)
        module.meta["dynamo_compile_id"] = CompileId(frame_id=next(graph_numbers), frame_compile_id=0)
        module.meta["dynamo_flat_name_to_original_fqn"] = {}
        module._param_name_to_source = {}
        return module

    def write_origins(self):
        for node, (site, name) in itertools.chain(zip(self.calls, self.sites, strict=True), self.body_sites):
            text, modules = self.origins[site] if site >= 0 else ("", {})
            meta = node.meta
            function = node.target
            if modules:
                meta["nn_module_stack"] = dict(modules)
                innermost = next(reversed(modules.values()))[1]
                if isinstance(innermost, type) and is_library_module(innermost):
                    function = innermost
            meta["source_fn_stack"] = [(name, function)]
            meta["stack_trace"] = text

    def remove_idle_nodes(self):
        graph = self.graph
        for node in reversed(graph.find_nodes(op="call_function", target=operator.getitem)):
            if not node.users:
                graph.erase_node(node)
        # Grad mode switched over and back, with nothing between.
        enabled, before = torch.is_grad_enabled(), None
        for node in list(graph.nodes):
            if node.target is torch._C._set_grad_enabled:
                if before is not None and node.args[0] is enabled and before.args[0] is not enabled:
                    graph.erase_node(before)
                    graph.erase_node(node)
                    before = None
                    continue
                if before is not None:
                    enabled = before.args[0]
                before = node
            elif before is not None:
                enabled, before = before.args[0], None


def find_candidate(target):
    """Find what the name of a node begins with."""
    return torch.fx.Graph._target_to_str(None, target)


def is_plain(candidate):
    """Tell whether a name is one as it is, and has no number at its end."""
    legal = candidate.isidentifier() and candidate.isascii() and candidate not in _illegal_names
    return legal and not candidate[-1].isdigit()


@functools.lru_cache(4096)
def make_legal(source):
    return ILLEGAL.sub("_", source)


@functools.lru_cache(4096)
def make_path(source):
    return REGISTRY.sub(r".\2", source)


def make_example(fake):
    return _capture.fakes.make_example(fake, FakeTensor)


def find_class(module):
    """Return a module's class; its name, as in exported graphs, if the graph would be the last to hold it."""
    cls = type(module)
    found = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return cls if found is cls else f"{cls.__module__}.{cls.__qualname__}"


def is_library_module(cls):
    name = cls.__module__
    return name.startswith(("torch.nn.modules", "torch.ao.")) and not name.startswith("torch.nn.modules.container")


# ---- Stack traces --------------------------------------------------------------------------------------------------

# id of a code object -> (the code object, weakly; offset -> the frame's text)
frame_texts = {}


def find_frame_text(code, offset):
    """Write a frame as a traceback shows it; nothing for those of torch's modules."""
    key = id(code)
    entry = frame_texts.get(key)
    if entry is None or entry[0]() is not code:
        entry = frame_texts[key] = weakref.ref(code, lambda _: frame_texts.pop(key, None)), {}
    text = entry[1].get(offset)
    if text is None:
        text = entry[1][offset] = format_frame(code, offset)
    return text


def format_frame(code, offset):
    if "torch/nn/modules" in code.co_filename.replace("\\", "/"):
        return ""
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), offset // 2, None))
    summary = traceback.FrameSummary(
        *(code.co_filename, line or code.co_firstlineno, code.co_name),
        lookup_line=False,
        end_lineno=end_line,
        colno=column,
        end_colno=end_column,
    )
    return "".join(traceback.StackSummary.from_list([summary]).format())

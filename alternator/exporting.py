"""torch._dynamo.export: a function as one graph with the function's own signature."""

from __future__ import annotations

import inspect

import torch
import torch.utils._pytree as pytree
from torch._dynamo.eval_frame import ExportResult
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from alternator.accounts import list_guards


class Observation:
    """The one graph of a call: its module, the tensors that went in, and those that came out."""

    def __init__(self):
        self.module = None
        self.inputs = []
        self.outputs = []

    def compile(self, module, inputs):
        self.module, self.inputs = module, list(inputs)

        def run(*args):
            self.outputs = module(*args)
            return self.outputs

        return run


def export_call(optimize, fn, args, kwargs, aten_graph=False, decomposition_table=None):
    """Export what a call does: (graph module, guards)."""
    torch._dynamo.reset()
    seen = Observation()
    compiled = optimize(seen.compile, nopython=True)(fn)
    result = compiled(*args, **kwargs)
    guards = list_guards(compiled)
    flat, in_spec = pytree.tree_flatten((args, kwargs))
    leaves, out_spec = pytree.tree_flatten(result)
    module = rewrite(seen, flat, leaves)
    if aten_graph:
        from torch.fx.experimental.proxy_tensor import make_fx

        table = decomposition_table or {}
        module = make_fx(module, decomposition_table=table, _allow_non_fake_inputs=True)(*flat)
    names = name_arguments(fn, args, kwargs)
    module.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec))
    module.recompile()
    module.meta["dynamo_flat_name_to_original_fqn"] = {}
    torch._dynamo.reset()
    return ExportResult(module, guards)


def name_arguments(fn, args, kwargs):
    """List the names of the arguments as the function has them."""
    if isinstance(fn, torch.nn.Module):
        fn = fn.forward
    bound = inspect.signature(fn).bind(*args, **kwargs)
    names = []
    for name, value in bound.arguments.items():
        kind = inspect.signature(fn).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            names += list(value)
        else:
            names.append(name)
    return names


def rewrite(seen, flat, leaves):
    """Make the graph take the arguments in their order and give the result's leaves."""
    graph = torch.fx.Graph()
    arguments = [graph.placeholder(f"arg{i}") for i in range(len(flat))]
    root = torch.nn.Module()
    nodes, made, outputs = {}, 0, ()
    for node in seen.module.graph.nodes if seen.module is not None else ():
        if node.op == "placeholder":
            nodes[node] = place_input(graph, root, arguments, flat, seen.inputs[made], node.name)
            nodes[node].meta.update(node.meta)
            made += 1
        elif node.op == "output":
            outputs = [nodes[output] for output in node.args[0]]
        else:
            nodes[node] = graph.node_copy(node, nodes.__getitem__)
            if node.op in ("get_attr", "call_module"):
                setattr(root, node.target, getattr(seen.module, node.target))
    given = {id(value): argument for value, argument in zip(flat, arguments, strict=True) if torch.is_tensor(value)}
    given |= {id(value): node for value, node in zip(seen.outputs, outputs, strict=True)}
    graph.output([given.get(id(leaf), leaf) for leaf in leaves])
    return torch.fx.GraphModule(root, graph)


def place_input(graph, root, arguments, flat, tensor, name):
    for argument, value in zip(arguments, flat, strict=True):
        if value is tensor:
            return argument
    if isinstance(tensor, torch.nn.Parameter):
        root.register_parameter(name, tensor)
    else:
        root.register_buffer(name, tensor)
    return graph.get_attr(name)

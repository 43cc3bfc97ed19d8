"""A graph as data for the page: nodes with their inputs, the modules they are part of, and the graph's code."""

from __future__ import annotations

import re

MAX_CODE = 300_000  # characters of a graph's code
MAX_NODES = 6_000  # nodes of a graph that are drawn
MAX_ARGUMENTS = 240  # characters of a node's arguments

FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
ALIAS = re.compile(r"^\s+(\w+) = (\w+)(;.*)?$")

# Kinds of nodes, as the page knows them.
INPUT, HELD, CALL, OTHER, OUTPUT = range(5)


def describe_graph(module) -> dict:
    """Describe a graph module before the backend gets it. Nothing of the module itself is kept."""
    nodes = list(module.graph.nodes)
    numbers = {node: number for number, node in enumerate(nodes[:MAX_NODES])}
    stacks, stack_numbers, rows, places = [], {}, [], {}
    for node in numbers:
        stack = tuple(
            (key, path, getattr(cls, "__name__", str(cls).rpartition(".")[2]))
            for key, (path, cls) in node.meta.get("nn_module_stack", {}).items()
        )
        if stack not in stack_numbers:
            stack_numbers[stack] = len(stacks)
            stacks.append([list(entry) for entry in stack])
        frames = find_frames(node)
        rows.append(
            [
                node.name,
                find_kind(node),
                name_target(node),
                describe_value(node.meta.get("example_value", node.meta.get("val"))),
                stack_numbers[stack],
                [numbers[source] for source in node.all_input_nodes if source in numbers],
                list(frames[-1][:2]) if frames else None,
                write_arguments(node),
            ]
        )
        for frame in frames:
            places.setdefault(frame, None)
    code, cut = write_code(module)
    return {
        "nodes": rows,
        "stacks": stacks,
        "code": code,
        "codeCut": cut,
        "nodesCut": max(len(nodes) - MAX_NODES, 0),
        "operations": sum("call" in node.op for node in nodes),
        "inputs": sum(node.op == "placeholder" for node in nodes),
        "places": list(places),
    }


def find_frames(node):
    """List the frames (file, line, function) that led to a node, from the outermost."""
    found = FRAME.findall(node.meta.get("stack_trace") or "")
    return [(file, int(line), function) for file, line, function in found]


def find_kind(node):
    if node.op == "placeholder":
        source = getattr(getattr(node, "_dynamo_source", None), "_text", "")
        return HELD if "._parameters[" in source or "._buffers[" in source else INPUT
    if node.op == "output":
        return OUTPUT
    return CALL if node.op in ("call_function", "call_method") else OTHER


def name_target(node):
    if node.op == "placeholder":
        return getattr(getattr(node, "_dynamo_source", None), "_text", "") or str(node.target)
    if isinstance(node.target, str):
        return f".{node.target}" if node.op == "call_method" else node.target
    name = getattr(node.target, "__name__", None) or str(node.target)
    return name.removeprefix("_operator.")


def describe_value(value) -> str:
    """Write a tensor as f32[2, 8], and a few of them one after the other."""
    if isinstance(value, tuple | list):
        shown = [describe_value(item) for item in value[:4]]
        return f"({', '.join(filter(None, shown))}{', ...' if len(value) > 4 else ''})"
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None:
        return "" if value is None else type(value).__name__
    from torch.utils._dtype_abbrs import dtype_abbrs

    return f"{dtype_abbrs.get(dtype, str(dtype).removeprefix('torch.'))}[{', '.join(map(str, shape))}]"


def write_arguments(node):
    if node.op == "placeholder":
        return ""
    parts = [repr(arg) for arg in node.args] + [f"{name}={value!r}" for name, value in node.kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= MAX_ARGUMENTS else text[:MAX_ARGUMENTS] + " ..."


def write_code(module):
    """Write the graph as readable Python with shapes, and tell how many characters were left off."""
    try:
        text = module.print_readable(print_output=False, include_stride=False, include_device=False, colored=False)
        text = write_signature(module, text)
    except Exception as error:  # the program goes on, and so does the report
        text = f"# the code could not be written: {type(error).__name__}: {error}\n"
    return text[:MAX_CODE], max(len(text) - MAX_CODE, 0)


def write_signature(module, text):
    """Give the inputs a line each, by the names that the graph uses, in place of `def` and a list of assignments."""
    inputs = {node.target: node for node in module.graph.nodes if node.op == "placeholder"}
    lines = []
    for line in text.strip("\n").split("\n"):
        alias = ALIAS.match(line)
        if line.lstrip().startswith("def forward(self") and inputs:
            lines += ["    def forward(", "        self,"]
            lines += [
                f'        {node.name}: "{describe_value(node.meta.get("example_value"))}",' for node in inputs.values()
            ]
            lines.append("    ):")
        elif alias is None or alias[2] not in inputs:
            lines.append(line)
    return "\n".join(lines) + "\n"

// alternator._capture.NodeMaker: nodes of a torch.fx graph without `Graph.create_node`, whose checks of every argument cost
// more than the rest of the recording. What it does besides, names above all, is done here; `Graph.lint` is in the tests.
//
//   NodeMaker(graph, find_candidate, is_plain)     find_candidate(target) -> what a name begins with; is_plain(name): it is
//                                                  legal as it is, and has no number at its end; asked once for each
//   make_node(kind, target, args, kwargs)          a node that is not in its place yet
//   name_node(node, name)                          names a node after the variable that its value is first stored in
//   link(nodes)                                    puts nodes in their places
#pragma once

#include "base/ref.h"

namespace alternator::record {

struct NodeMaker;

// Adds the class to the module. False with an exception set.
bool add_node_maker(PyObject* module);

// Null if the object is none.
NodeMaker* as_node_maker(PyObject* object);
bool name_node(NodeMaker* maker, PyObject* node, PyObject* name);
// A node and its name. Null with an exception set.
Ref<> make_node(NodeMaker* maker, PyObject* kind, PyObject* target, PyObject* args, PyObject* kwargs, Ref<>* name);

}  // namespace alternator::record

#include "record/node_maker.h"

#include <algorithm>
#include <charconv>

#include "base/boundary.h"
#include "py/heap_object.h"
#include "py/names.h"

namespace alternator::record {

struct NodeMaker {
  PyObject_HEAD PyObject* graph;
  PyObject* find_candidate;
  PyObject* is_plain;
  PyObject* create_name;  // of the graph's namespace, for names that are not plain
  PyObject* used;         // its tables
  PyObject* counts;
  PyObject* names;
  PyObject* named;  // a set: nodes that have the name of a variable
};

namespace {

PyTypeObject* maker_type = nullptr;
PyTypeObject* node_type = nullptr;  // torch.fx.Node
PyTypeObject* node_base = nullptr;  // torch._C._NodeBase

bool find_node_types() {
  if (node_base != nullptr) {
    return true;
  }
  Ref<> module = steal(PyImport_ImportModule("torch.fx"));
  Ref<> node = module ? steal(PyObject_GetAttrString(module.get(), "Node")) : nullptr;
  Ref<> torch_c = node ? steal(PyImport_ImportModule("torch._C")) : nullptr;
  Ref<> base = torch_c ? steal(PyObject_GetAttrString(torch_c.get(), "_NodeBase")) : nullptr;
  if (!base || !PyType_Check(node.get()) || !PyType_Check(base.get())) {
    return false;
  }
  node_type = reinterpret_cast<PyTypeObject*>(node.release());  // for good
  node_base = reinterpret_cast<PyTypeObject*>(base.release());
  return true;
}

// What a function of Python said of this before. `answers`: a dict that is made when it is first needed.
Ref<> ask_once(PyObject** answers, PyObject* function, PyObject* about) {
  constexpr Py_ssize_t kMost = 8192;
  if (*answers == nullptr && (*answers = PyDict_New()) == nullptr) {
    return nullptr;
  }
  if (PyObject* known = PyDict_GetItemWithError(*answers, about); known != nullptr || PyErr_Occurred()) {
    return share(known);
  }
  Ref<> answer = steal(PyObject_CallOneArg(function, about));
  if (PyDict_GET_SIZE(*answers) >= kMost) {
    PyDict_Clear(*answers);
  }
  return answer && PyDict_SetItem(*answers, about, answer.get()) == 0 ? std::move(answer) : nullptr;
}

// "add", 3: "add_3".
Ref<> append_number(PyObject* name, long number) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  if (!PyUnicode_IS_COMPACT_ASCII(name)) {
    return steal(PyUnicode_FromFormat("%U_%ld", name, number));
  }
  Py_ssize_t length = PyUnicode_GET_LENGTH(name);
  Ref<> numbered = steal(PyUnicode_New(length + 1 + (end - digits), 127));
  if (numbered) {
    auto* text = static_cast<char*>(PyUnicode_DATA(numbered.get()));
    text = std::copy_n(static_cast<const char*>(PyUnicode_DATA(name)), length, text);
    *text++ = '_';
    std::copy(static_cast<const char*>(digits), end, text);
  }
  return numbered;
}

// What the namespace's create_name() comes to for a plain name. Null with an exception set.
Ref<> number_name(NodeMaker* maker, PyObject* candidate) {
  PyObject* count = PyDict_GetItemWithError(maker->counts, candidate);
  long number = count != nullptr ? PyLong_AsLong(count) : 0;
  if (number == -1 && PyErr_Occurred()) {
    return nullptr;
  }
  Ref<> name = share(candidate);
  while (true) {
    Py_ssize_t before = PySet_GET_SIZE(maker->used);
    if (!name || PySet_Add(maker->used, name.get()) < 0) {
      return nullptr;
    }
    if (PySet_GET_SIZE(maker->used) > before) {
      break;  // nobody had it
    }
    name = append_number(candidate, ++number);
  }
  Ref<> last = steal(PyLong_FromLong(number));
  return last && PyDict_SetItem(maker->counts, candidate, last.get()) == 0 ? std::move(name) : nullptr;
}

Ref<> make_name(NodeMaker* maker, PyObject* candidate) {
  static constinit PyObject* answers = nullptr;
  Ref<> plain = ask_once(&answers, maker->is_plain, candidate);
  if (!plain) {
    return nullptr;
  }
  if (plain.get() == Py_True) {
    return number_name(maker, candidate);
  }
  return steal(PyObject_CallFunctionObjArgs(maker->create_name, candidate, Py_None, nullptr));
}

int initialise(PyObject* self, PyObject* args, PyObject*) {
  auto* maker = reinterpret_cast<NodeMaker*>(self);
  PyObject *graph, *find_candidate, *is_plain;
  if (!PyArg_ParseTuple(args, "OOO:NodeMaker", &graph, &find_candidate, &is_plain) || !find_node_types()) {
    return -1;
  }
  Ref<> space = steal(PyObject_GetAttrString(graph, "_graph_namespace"));
  auto part = [&](const char* name) {
    return space && !PyErr_Occurred() ? PyObject_GetAttrString(space.get(), name) : nullptr;
  };
  Py_XSETREF(maker->graph, Py_NewRef(graph));
  Py_XSETREF(maker->find_candidate, Py_NewRef(find_candidate));
  Py_XSETREF(maker->is_plain, Py_NewRef(is_plain));
  Py_XSETREF(maker->create_name, part("create_name"));
  Py_XSETREF(maker->used, part("_used_names"));
  Py_XSETREF(maker->counts, part("_base_count"));
  Py_XSETREF(maker->names, part("_obj_to_name"));
  Py_XSETREF(maker->named, maker->names != nullptr ? PySet_New(nullptr) : nullptr);
  if (maker->named == nullptr || maker->create_name == nullptr || maker->used == nullptr || maker->counts == nullptr ||
      maker->names == nullptr) {
    return -1;
  }
  if (!PySet_Check(maker->used) || !PyDict_Check(maker->counts) || !PyDict_Check(maker->names)) {
    PyErr_SetString(PyExc_TypeError, "NodeMaker() takes a torch.fx.Graph");
    return -1;
  }
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* maker = reinterpret_cast<NodeMaker*>(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* part : {maker->graph, maker->find_candidate, maker->is_plain, maker->create_name, maker->used,
                         maker->counts, maker->names, maker->named}) {
    Py_VISIT(part);
  }
  return 0;
}

int clear(PyObject* self) {
  auto* maker = reinterpret_cast<NodeMaker*>(self);
  for (PyObject** part : {&maker->graph, &maker->find_candidate, &maker->is_plain, &maker->create_name, &maker->used,
                          &maker->counts, &maker->names, &maker->named}) {
    Py_CLEAR(*part);
  }
  return 0;
}

PyObject* python_make_node(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    return PyErr_Format(PyExc_TypeError, "make_node() takes 4 arguments");
  }
  Ref<> name;
  return make_node(reinterpret_cast<NodeMaker*>(self), args[0], args[1], args[2], args[3], &name).release();
}

PyObject* python_name_node(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    return PyErr_Format(PyExc_TypeError, "name_node() takes 2 arguments");
  }
  return name_node(reinterpret_cast<NodeMaker*>(self), args[0], args[1]) ? Py_NewRef(Py_None) : nullptr;
}

// The graph's table of nodes by kind and function, which Graph.find_nodes() asks.
bool note_node(PyObject* table, PyObject* node) {
  PyObject* const op = py::names.op;
  PyObject* const target = py::names.target;
  Ref<> kind = steal(PyObject_GetAttr(node, op));
  bool function = kind && PyUnicode_CompareWithASCIIString(kind.get(), "call_function") == 0;
  Ref<> found = kind ? (function ? steal(PyObject_GetAttr(node, target)) : share(Py_None)) : nullptr;
  Ref<> key = found ? steal(PyTuple_Pack(2, kind.get(), found.get())) : nullptr;
  Ref<> nodes = key ? steal(PyObject_GetItem(table, key.get())) : nullptr;
  return nodes && PyObject_SetItem(nodes.get(), node, Py_None) == 0;
}

PyObject* link(PyObject* self, PyObject* nodes) {
  PyObject* const prepend = py::names._prepend;
  PyObject* graph = reinterpret_cast<NodeMaker*>(self)->graph;
  Ref<> root = steal(PyObject_GetAttrString(graph, "_root"));
  Ref<> lookup = root ? steal(PyObject_GetAttrString(graph, "_find_nodes_lookup_table")) : nullptr;
  Ref<> table = lookup ? steal(PyObject_GetAttrString(lookup.get(), "table")) : nullptr;
  Ref<> length = table ? steal(PyObject_GetAttrString(graph, "_len")) : nullptr;
  if (!length || !PyList_CheckExact(nodes)) {
    return length ? PyErr_Format(PyExc_TypeError, "link() takes a list") : nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i) {
    PyObject* arguments[] = {root.get(), PyList_GET_ITEM(nodes, i)};
    Ref<> linked = steal(PyObject_VectorcallMethod(prepend, arguments, 2, nullptr));
    if (!linked || !note_node(table.get(), arguments[1])) {
      return nullptr;
    }
  }
  Ref<> total = steal(PyLong_FromSsize_t(PyLong_AsSsize_t(length.get()) + PyList_GET_SIZE(nodes)));
  return total && PyObject_SetAttrString(graph, "_len", total.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
}

PyMethodDef methods[] = {
    {"make_node", as_method<python_make_node>(), METH_FASTCALL,
     "make_node(kind, target, args, kwargs): a node that is not in its place yet"},
    {"name_node", as_method<python_name_node>(), METH_FASTCALL,
     "name_node(node, name): names a node after the variable that its value is first stored in"},
    {"link", as_method<link>(), METH_O, "link(nodes): puts nodes in their places"},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_init, as_slot<initialise>()},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_traverse, as_slot<traverse>()},
    {Py_tp_clear, as_slot<clear>()},
    {Py_tp_dealloc, as_slot<py::destroy_object<clear>>()},
    {0, nullptr},
};
PyType_Spec spec = {"alternator._capture.NodeMaker", sizeof(NodeMaker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                    slots};

}  // namespace

NodeMaker* as_node_maker(PyObject* object) {
  return Py_IS_TYPE(object, maker_type) ? reinterpret_cast<NodeMaker*>(object) : nullptr;
}

bool name_node(NodeMaker* maker, PyObject* node, PyObject* name) {
  PyObject* const op = py::names.op;
  PyObject* const name_attribute = py::names.name;
  int named = PySet_Contains(maker->named, node);
  Ref<> kind = named == 0 ? steal(PyObject_GetAttr(node, op)) : nullptr;
  if (!kind || PyUnicode_CompareWithASCIIString(kind.get(), "placeholder") == 0) {
    return named > 0 || kind;
  }
  Ref<> old = steal(PyObject_GetAttr(node, name_attribute));
  int differs = old && PySet_Add(maker->named, node) == 0 ? PyObject_RichCompareBool(old.get(), name, Py_NE) : -1;
  if (differs <= 0) {
    return differs == 0;
  }
  // Not by Node's own __setattr__, which looks after graphs that the node is already in.
  Ref<> unique = make_name(maker, name);
  return unique && PyObject_GenericSetAttr(node, name_attribute, unique.get()) == 0 &&
         PyDict_SetItem(maker->names, node, unique.get()) == 0;
}

Ref<> make_node(NodeMaker* maker, PyObject* kind, PyObject* target, PyObject* args, PyObject* kwargs, Ref<>* name) {
  PyObject* const set_arguments = py::names._update_args_kwargs;
  Ref<> nothing = steal(PyTuple_New(0));  // there is one empty tuple
  static constinit PyObject* answers = nullptr;
  Ref<> candidate = ask_once(&answers, maker->find_candidate, target);
  *name = candidate ? make_name(maker, candidate.get()) : nullptr;
  if (!*name) {
    return nullptr;
  }
  // Without the checks of Node.__init__.
  Ref<> node = steal(node_base->tp_new(node_type, nothing.get(), nullptr));
  Ref<> parts = node ? steal(PyTuple_Pack(5, maker->graph, name->get(), kind, target, Py_None)) : nullptr;
  if (!parts || node_base->tp_init(node.get(), parts.get(), nullptr) < 0) {
    return nullptr;
  }
  PyObject* arguments[] = {node.get(), args, kwargs};
  Ref<> set = steal(PyObject_VectorcallMethod(set_arguments, arguments, 3, nullptr));
  if (!set || PyDict_SetItem(maker->names, node.get(), name->get()) < 0) {
    return nullptr;
  }
  return node;
}

bool add_node_maker(PyObject* module) {
  maker_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return maker_type != nullptr &&
         PyModule_AddObjectRef(module, "NodeMaker", reinterpret_cast<PyObject*>(maker_type)) == 0;
}

}  // namespace alternator::record

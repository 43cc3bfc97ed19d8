#include "py/ordered_dict.h"

#include "base/once.h"
#include "base/ref.h"
#include "base/shortage.h"

namespace alternator::py {
namespace {

bool try_out() {
  if (PyODict_Type.tp_basicsize != sizeof(OrderedDict) ||
      PyODict_Type.tp_dictoffset != offsetof(OrderedDict, attributes) ||
      PyODict_Type.tp_weaklistoffset != offsetof(OrderedDict, weakrefs)) {
    return false;
  }
  Ref<> dict = steal(PyODict_New());
  if (!dict || PyODict_SetItem(dict.get(), Py_True, Py_None) < 0 || PyODict_SetItem(dict.get(), Py_None, Py_None) < 0) {
    return false;
  }
  auto* inside = reinterpret_cast<OrderedDict*>(dict.get());
  OrderedNode* node = inside->first;
  if (node->key != Py_True || node->next->key != Py_None || node->next->next != nullptr || inside->last != node->next) {
    return false;
  }
  size_t state = inside->state;
  Ref<> moved = steal(PyObject_CallMethod(dict.get(), "move_to_end", "O", Py_True));
  return moved && inside->first->key == Py_None && inside->state != state;
}

}  // namespace

bool knows_ordered_dict() {
  static constinit Once<bool> knows;
  return knows.get([] {
    bool works = try_out();
    forget_error();
    return works;
  });
}

}  // namespace alternator::py

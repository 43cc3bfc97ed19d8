#include "py/body.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/once.h"
#include "base/ref.h"
#include "base/shortage.h"

namespace alternator::py {
namespace {

// Layouts that CPython keeps to itself: Objects/odictobject.c and Modules/_collectionsmodule.c.
struct OrderedDictBody {
  PyDictObject dict;
  void* first;
  void* last;
  void* fast_nodes;
  Py_ssize_t fast_nodes_size;
  void* resize_sentinel;
  size_t state;
};

struct DequeBody {
  PyVarObject head;
  void* left_block;
  void* right_block;
  Py_ssize_t left_index;
  Py_ssize_t right_index;
  size_t state;
  Py_ssize_t limit;
};

template <class T>
T* as(PyObject* object) {
  return reinterpret_cast<T*>(object);
}

void exchange_sizes(PyObject* a, PyObject* b) {
  Py_ssize_t size = Py_SIZE(a);
  Py_SET_SIZE(as<PyVarObject>(a), Py_SIZE(b));
  Py_SET_SIZE(as<PyVarObject>(b), size);
}

void exchange_dicts(PyDictObject* a, PyDictObject* b) {
  std::swap(a->ma_used, b->ma_used);
  std::swap(a->ma_version_tag, b->ma_version_tag);
  std::swap(a->ma_keys, b->ma_keys);
  std::swap(a->ma_values, b->ma_values);
}

void exchange_sets(PySetObject* a, PySetObject* b) {
  std::swap(a->fill, b->fill);
  std::swap(a->used, b->used);
  std::swap(a->mask, b->mask);
  std::swap(a->finger, b->finger);
  std::swap(a->smalltable, b->smalltable);
  std::swap(a->table, b->table);
  // A small table lies in the object itself.
  for (auto [set, other] : {std::pair{a, b}, std::pair{b, a}}) {
    if (set->table == other->smalltable) {
      set->table = set->smalltable;
    }
  }
}

// With the same table: a copy by insertion could iterate in another order.
PyObject* clone_set(PyObject* object) {
  auto* from = as<PySetObject>(object);
  PyObject* copy = PySet_New(nullptr);
  if (copy == nullptr) {
    return nullptr;
  }
  auto* to = as<PySetObject>(copy);
  size_t entries = static_cast<size_t>(from->mask) + 1;
  setentry* table = to->smalltable;
  if (from->table != from->smalltable) {
    table = PyMem_New(setentry, entries);
    if (table == nullptr) {
      Py_DECREF(copy);
      PyErr_NoMemory();
      return nullptr;
    }
  }
  for (size_t i = 0; i < entries; ++i) {
    table[i] = from->table[i];
    if (table[i].key != nullptr && table[i].key != _PySet_Dummy) {
      Py_INCREF(table[i].key);
    }
  }
  to->table = table;
  to->mask = from->mask;
  to->fill = from->fill;
  to->used = from->used;
  to->finger = from->finger;
  return copy;
}

PyObject* clone_ordered_dict(PyObject* object) {
  Ref<> copy = steal(PyODict_New());
  Ref<> keys = copy ? steal(PyODict_Type.tp_iter(object)) : nullptr;
  while (keys) {
    Ref<> key = steal(Py_TYPE(keys.get())->tp_iternext(keys.get()));
    if (!key) {
      return PyErr_Occurred() ? nullptr : copy.release();
    }
    PyObject* value = PyDict_GetItemWithError(object, key.get());
    if (value == nullptr || PyODict_SetItem(copy.get(), key.get(), value) < 0) {
      return nullptr;
    }
  }
  return nullptr;
}

PyObject* clone_deque(PyObject* object) {
  PyObject* type = reinterpret_cast<PyObject*>(deque_type());
  Py_ssize_t limit = deque_limit(object);
  return limit < 0 ? PyObject_CallOneArg(type, object) : PyObject_CallFunction(type, "On", object, limit);
}

}  // namespace

namespace {

enum EntryState : Py_ssize_t { kEmpty, kUsed, kGone };

struct LaidEntry {
  Py_ssize_t state;
  Py_hash_t hash;
};

struct LaidTable {
  Py_ssize_t mask, fill, finger;
};

}  // namespace

PyObject* set_layout(PyObject* object) {
  auto* set = as<PySetObject>(object);
  size_t entries = static_cast<size_t>(set->mask) + 1;
  PyObject* layout =
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(sizeof(LaidTable) + entries * sizeof(LaidEntry)));
  if (layout == nullptr) {
    return nullptr;
  }
  auto* table = reinterpret_cast<LaidTable*>(PyBytes_AS_STRING(layout));
  *table = {set->mask, set->fill, set->finger};
  auto* laid = reinterpret_cast<LaidEntry*>(table + 1);
  for (size_t i = 0; i < entries; ++i) {
    PyObject* key = set->table[i].key;
    laid[i] = key == nullptr        ? LaidEntry{kEmpty, 0}
              : key == _PySet_Dummy ? LaidEntry{kGone, 0}
                                    : LaidEntry{kUsed, set->table[i].hash};
  }
  return layout;
}

void arrange_set(PyObject* object, PyObject* layout, const std::vector<PyObject*>& items) {
  auto* set = as<PySetObject>(object);
  const auto* laid_table = reinterpret_cast<const LaidTable*>(PyBytes_AS_STRING(layout));
  const auto* laid = reinterpret_cast<const LaidEntry*>(laid_table + 1);
  size_t entries = static_cast<size_t>(laid_table->mask) + 1;
  std::unordered_map<PyObject*, Py_hash_t> hashes;
  for (Py_ssize_t i = 0; i <= set->mask; ++i) {
    hashes.emplace(set->table[i].key, set->table[i].hash);
  }
  std::vector<setentry> table(entries);
  size_t next = 0;
  for (size_t i = 0; i < entries; ++i) {
    table[i] = laid[i].state == kGone ? setentry{_PySet_Dummy, -1} : setentry{nullptr, 0};
    if (laid[i].state == kUsed) {
      auto found = next < items.size() ? hashes.find(items[next++]) : hashes.end();
      if (found == hashes.end() || found->second != laid[i].hash) {
        return;
      }
      table[i] = {found->first, found->second};
    }
  }
  if (next != items.size() || static_cast<size_t>(set->used) != next) {
    return;
  }
  setentry* placed = entries > PySet_MINSIZE ? PyMem_New(setentry, entries) : set->smalltable;
  if (placed == nullptr) {
    return;
  }
  if (set->table != set->smalltable) {
    PyMem_Free(set->table);  // its references are those of the new table
  }
  std::copy(table.begin(), table.end(), placed);
  set->table = placed;
  set->mask = laid_table->mask;
  set->fill = laid_table->fill;
  set->finger = laid_table->finger;
}

PyTypeObject* deque_type() {
  static constinit Once<PyTypeObject*> type;
  return type.get([] {
    PyObject* module = PyImport_ImportModule("_collections");
    PyObject* found = module ? PyObject_GetAttrString(module, "deque") : nullptr;
    Py_XDECREF(module);
    forget_error();
    return reinterpret_cast<PyTypeObject*>(found);
  });
}

Py_ssize_t deque_limit(PyObject* deque) { return as<DequeBody>(deque)->limit; }
Py_ssize_t deque_limit_offset() { return offsetof(DequeBody, limit); }

BodyKind body_kind(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyList_Check(object)) {
    return type->tp_iter == PyList_Type.tp_iter ? BodyKind::List : BodyKind::None;
  }
  if (PyODict_Check(object)) {
    return type->tp_iter == PyODict_Type.tp_iter ? BodyKind::OrderedDict : BodyKind::None;
  }
  if (PyDict_Check(object)) {
    return type->tp_iter == PyDict_Type.tp_iter ? BodyKind::Dict : BodyKind::None;
  }
  if (PySet_Check(object)) {
    return type->tp_iter == PySet_Type.tp_iter ? BodyKind::Set : BodyKind::None;
  }
  PyTypeObject* deque = deque_type();
  return deque != nullptr && PyType_IsSubtype(type, deque) && type->tp_iter == deque->tp_iter ? BodyKind::Deque
                                                                                              : BodyKind::None;
}

PyObject* make_twin(PyObject* object, BodyKind kind) {
  switch (kind) {
    case BodyKind::List: return PyList_GetSlice(object, 0, PyList_GET_SIZE(object));
    case BodyKind::Dict: return PyDict_Copy(object);
    case BodyKind::OrderedDict: return clone_ordered_dict(object);
    case BodyKind::Set: return clone_set(object);
    case BodyKind::Deque: return clone_deque(object);
    case BodyKind::None: break;
  }
  PyErr_SetString(PyExc_SystemError, "alternator: an object without a known body");
  return nullptr;
}

void exchange_bodies(PyObject* a, PyObject* b, BodyKind kind) {
  switch (kind) {
    case BodyKind::List:
      exchange_sizes(a, b);
      std::swap(as<PyListObject>(a)->ob_item, as<PyListObject>(b)->ob_item);
      std::swap(as<PyListObject>(a)->allocated, as<PyListObject>(b)->allocated);
      return;
    case BodyKind::OrderedDict: {
      auto* x = as<OrderedDictBody>(a);
      auto* y = as<OrderedDictBody>(b);
      std::swap(x->first, y->first);
      std::swap(x->last, y->last);
      std::swap(x->fast_nodes, y->fast_nodes);
      std::swap(x->fast_nodes_size, y->fast_nodes_size);
      std::swap(x->resize_sentinel, y->resize_sentinel);
      std::swap(x->state, y->state);
    }
      [[fallthrough]];
    case BodyKind::Dict: return exchange_dicts(as<PyDictObject>(a), as<PyDictObject>(b));
    case BodyKind::Set: return exchange_sets(as<PySetObject>(a), as<PySetObject>(b));
    case BodyKind::Deque: {
      auto* x = as<DequeBody>(a);
      auto* y = as<DequeBody>(b);
      exchange_sizes(a, b);
      std::swap(x->left_block, y->left_block);
      std::swap(x->right_block, y->right_block);
      std::swap(x->left_index, y->left_index);
      std::swap(x->right_index, y->right_index);
      std::swap(x->state, y->state);
      return;
    }
    case BodyKind::None: return;
  }
}

std::vector<PyObject*> list_contents(PyObject* object, BodyKind kind) {
  std::vector<PyObject*> found;
  traverseproc traverse = kind == BodyKind::List    ? PyList_Type.tp_traverse
                          : kind == BodyKind::Set   ? PySet_Type.tp_traverse
                          : kind == BodyKind::Deque ? deque_type()->tp_traverse
                                                    : PyDict_Type.tp_traverse;
  traverse(
      object,
      [](PyObject* item, void* into) noexcept {
        static_cast<std::vector<PyObject*>*>(into)->push_back(item);
        return 0;
      },
      &found);
  return found;
}

bool reorder_attributes(PyObject* object, PyObject* names) {
  Ref<> dict = steal(PyObject_GenericGetDict(object, nullptr));
  Ref<> now = dict ? steal(PyDict_Keys(dict.get())) : nullptr;
  if (!now) {
    return false;
  }
  int same = PyObject_RichCompareBool(now.get(), names, Py_EQ);
  for (Py_ssize_t i = 0; same == 0 && i < PyList_GET_SIZE(names); ++i) {
    PyObject* name = PyList_GET_ITEM(names, i);
    Ref<> value = share(PyDict_GetItemWithError(dict.get(), name));
    if (!value || PyDict_DelItem(dict.get(), name) < 0 || PyDict_SetItem(dict.get(), name, value.get()) < 0) {
      return false;
    }
  }
  return same >= 0;
}

}  // namespace alternator::py

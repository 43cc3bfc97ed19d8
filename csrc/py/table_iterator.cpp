#include "py/table_iterator.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "py/instance.h"

namespace alternator::py {
namespace {

// As laid out by Objects/dictobject.c, setobject.c and odictobject.c.
struct DictIterator {
  PyObject_HEAD PyObject* dict;
  Py_ssize_t used, position;
  PyObject* result;
  Py_ssize_t length;
};
struct SetIterator {
  PyObject_HEAD PyObject* set;
  Py_ssize_t used, position, length;
};
struct OrderedIterator {
  PyObject_HEAD int kind;
  PyObject* dict;
  Py_ssize_t size;
  size_t state;
  PyObject *current, *result;
};
enum OrderedKind { kReversed = 1, kKeys = 2, kValues = 4 };

enum class Table { Dict, OrderedDict, Set };

struct Row {
  PyTypeObject* type;
  Table table;
  PyTypeObject* view = nullptr;
  bool reversed = false;
};

constexpr std::array kRows{
    Row{&PyDictIterKey_Type, Table::Dict, &PyDictKeys_Type},
    Row{&PyDictIterValue_Type, Table::Dict, &PyDictValues_Type},
    Row{&PyDictIterItem_Type, Table::Dict, &PyDictItems_Type},
    Row{&PyDictRevIterKey_Type, Table::Dict, &PyDictKeys_Type, true},
    Row{&PyDictRevIterValue_Type, Table::Dict, &PyDictValues_Type, true},
    Row{&PyDictRevIterItem_Type, Table::Dict, &PyDictItems_Type, true},
    Row{&PySetIter_Type, Table::Set},
    Row{&PyODictIter_Type, Table::OrderedDict},
};

const Row* row_of(PyTypeObject* type) {
  auto found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.type == type; });
  return found != kRows.end() ? &*found : nullptr;
}

template <class T>
T* as(PyObject* object) {
  return reinterpret_cast<T*>(object);
}

// A new reference to one that stands at the beginning.
PyObject* begin(PyObject* table, const Row& row, int kind) {
  if (row.table == Table::Set) {
    return PySet_Type.tp_iter(table);
  }
  bool ordered = row.table == Table::OrderedDict;
  PyTypeObject* view_type = !ordered                                          ? row.view
                            : (kind & (kKeys | kValues)) == (kKeys | kValues) ? &PyODictItems_Type
                            : (kind & kValues) != 0                           ? &PyODictValues_Type
                                                                              : &PyODictKeys_Type;
  Ref<> view = steal(make_view(table, view_type));
  if (!view) {
    return nullptr;
  }
  bool reversed = ordered ? (kind & kReversed) != 0 : row.reversed;
  return reversed ? PyObject_CallMethod(view.get(), "__reversed__", nullptr) : PyObject_GetIter(view.get());
}

PyObject* make_empty(Table table) {
  return table == Table::Set ? PySet_New(nullptr) : table == Table::Dict ? PyDict_New() : PyODict_New();
}

// The items before an entry of a dict: the places of items that were taken out do not count.
Py_ssize_t count_before(PyObject* dict, Py_ssize_t entry) {
  PyObject *key, *value;
  Py_ssize_t position = 0, count = 0;
  while (PyDict_Next(dict, &position, &key, &value) && position <= entry) {
    ++count;
  }
  return count;
}

bool is_current(const OrderedIterator* iterator, const OrderedIterator* just_begun) {
  return iterator->state == just_begun->state && iterator->size == just_begun->size;
}

}  // namespace

bool is_table_iterator(PyObject* iterator) { return row_of(Py_TYPE(iterator)) != nullptr; }

PyObject* table_of(PyObject* iterator) {
  switch (row_of(Py_TYPE(iterator))->table) {
    case Table::Dict: return as<DictIterator>(iterator)->dict;
    case Table::OrderedDict: return as<OrderedIterator>(iterator)->dict;
    case Table::Set: return as<SetIterator>(iterator)->set;
  }
  return nullptr;
}

TableIteration iteration_of(PyObject* iterator) {
  bool ordered = Py_IS_TYPE(iterator, &PyODictIter_Type);
  return {Py_TYPE(iterator), ordered ? as<OrderedIterator>(iterator)->kind : 0};
}

Py_ssize_t count_given(PyObject* iterator) {
  const Row& row = *row_of(Py_TYPE(iterator));
  if (row.table != Table::OrderedDict) {
    return row.table == Table::Set ? as<SetIterator>(iterator)->used - as<SetIterator>(iterator)->length
                                   : as<DictIterator>(iterator)->used - as<DictIterator>(iterator)->length;
  }
  const auto* ordered = as<OrderedIterator>(iterator);
  if (ordered->current == nullptr) {
    return PyDict_Size(ordered->dict);
  }
  Ref<> other = steal(begin(ordered->dict, row, ordered->kind));
  for (Py_ssize_t given = 0; other; ++given) {
    if (as<OrderedIterator>(other.get())->current == ordered->current) {
      return given;
    }
    Ref<> item = steal(PyIter_Next(other.get()));
    if (!item) {
      break;
    }
  }
  PyErr_Clear();
  return -1;  // the item is gone
}

bool began_with(PyObject* iterator, Py_ssize_t size) {
  const Row& row = *row_of(Py_TYPE(iterator));
  if (row.table != Table::OrderedDict) {
    return (row.table == Table::Set ? as<SetIterator>(iterator)->used : as<DictIterator>(iterator)->used) == size;
  }
  const auto* ordered = as<OrderedIterator>(iterator);
  Ref<> other = steal(begin(ordered->dict, row, ordered->kind));
  bool same = other && ordered->size == size && is_current(ordered, as<OrderedIterator>(other.get()));
  PyErr_Clear();
  return same;
}

PyObject* make_table_iterator(PyObject* table, TableIteration iteration, Py_ssize_t given) {
  const Row& row = *row_of(iteration.type);
  Ref<> none = table == nullptr ? steal(make_empty(row.table)) : nullptr;
  PyObject* over = table != nullptr ? table : none.get();
  Ref<> iterator = over != nullptr ? steal(begin(over, row, iteration.kind)) : nullptr;
  for (Py_ssize_t i = 0; iterator && i < given + (table == nullptr); ++i) {
    Ref<> item = steal(PyIter_Next(iterator.get()));
    if (PyErr_Occurred() != nullptr) {
      return nullptr;
    }
  }
  return iterator.release();
}

TablePosition position_of(PyObject* iterator) {
  const Row& row = *row_of(Py_TYPE(iterator));
  switch (row.table) {
    case Table::Set: {
      const auto* over = as<SetIterator>(iterator);
      return {over->position, over->used, over->length};
    }
    case Table::Dict: {
      const auto* over = as<DictIterator>(iterator);
      // One that is reversed stands at the item that is next, the others behind the last one.
      Py_ssize_t before = count_before(over->dict, over->position + row.reversed);
      return {before - row.reversed, over->used, over->length};
    }
    case Table::OrderedDict: break;
  }
  return {count_given(iterator), began_with(iterator, PyDict_Size(table_of(iterator))), 0};
}

bool set_position(PyObject* iterator, PyObject* table, TablePosition position) {
  switch (row_of(Py_TYPE(iterator))->table) {
    case Table::Set: {
      auto* over = as<SetIterator>(iterator);
      std::tie(over->position, over->used, over->length) = std::tie(position.place, position.used, position.length);
      return true;
    }
    case Table::Dict: {
      auto* over = as<DictIterator>(iterator);
      std::tie(over->position, over->used, over->length) = std::tie(position.place, position.used, position.length);
      return true;
    }
    case Table::OrderedDict: break;
  }
  Ref<> other = steal(make_table_iterator(table, iteration_of(iterator), position.place));
  if (!other) {
    return false;
  }
  auto* to = as<OrderedIterator>(iterator);
  auto* from = as<OrderedIterator>(other.get());
  to->size = from->size;
  to->state = position.used != 0 ? from->state : from->state - 1;
  std::swap(to->current, from->current);
  return true;
}

}  // namespace alternator::py

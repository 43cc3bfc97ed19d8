// Iterators from outside that the trace advances: those of CPython whose items can be told in advance and whose position
// can be put back. Numbers that they give are followed like those of a region's start (rules_moves.cpp), so that a loop's
// region fits the next turn as well.
#include "base/shortage.h"
#include "py/instance.h"
#include "py/iterator.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;
using py::IteratorKind;
using source::Sort;

void Recorder::record_next(PyObject* iterator, bool follows) {
  if (!graph_.is_outside(iterator)) {
    return;
  }
  if (is_hanging(iterator)) {
    return begin_hanging(iterator);
  }
  if (py::iterator_kind(iterator) == IteratorKind::Map) {
    return record_map_next(iterator);
  }
  PyObject* const next = py::names.__next__;
  PyTypeObject* type = Py_TYPE(iterator);
  if (PyObject* method = _PyType_Lookup(type, next); method != nullptr && PyFunction_Check(method)) {
    return graph_.read_type(type) ? note_class_value(type, next, method) : abort(AbortReason::UnknownRead, "a class");
  }
  Item item;
  record_advance(iterator, follows ? &item : nullptr);
  if (!ended_) {
    journal_.log_advance(iterator);
    if (!item.parts.empty() || item.node >= 0) {
      awaited_ = std::move(item);
      awaiting_ = position_.frame;
    }
  }
}

// Everything that is left of it. C code asks once more than there are items.
void Recorder::record_exhaustion(PyObject* iterator) {
  if (!graph_.is_outside(iterator)) {
    return;
  }
  IteratorKind kind = py::iterator_kind(iterator);
  int node = graph_.node_of(iterator);
  if (!py::has_items_ahead(kind) || journal_.original(py::inner_of(iterator, kind))) {
    return abort(AbortReason::IteratorOutside, Py_TYPE(iterator)->tp_name);
  }
  Py_ssize_t before = advanced_[iterator];
  Py_ssize_t count = py::count_ahead(iterator, kind);
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref<> value = steal(py::item_ahead(iterator, kind, i));
    graph_.read(node, Kind::IteratorItem, nullptr, before + i, value.get());
  }
  graph_.read_iterator(node, before + count, false);
  journal_.note_iterator(iterator);
  advanced_[iterator] += count;
  for (Py_ssize_t i = 0; i <= count; ++i) {
    journal_.log_advance(iterator);
  }
}

// False at its end. `item` gets a description of what it will give; null: it is relied on as it is.
bool Recorder::record_advance(PyObject* iterator, Item* item) {
  IteratorKind kind = py::iterator_kind(iterator);
  int node = graph_.node_of(iterator);
  PyObject* inner = kind == IteratorKind::None ? nullptr : py::inner_of(iterator, kind);
  if (kind == IteratorKind::None || node < 0 || (inner != nullptr && journal_.original(inner) != nullptr)) {
    abort(AbortReason::IteratorOutside, Py_TYPE(iterator)->tp_name);
    return false;
  }
  journal_.note_iterator(iterator);
  PyObject* const name = py::names.over;
  switch (kind) {
    case IteratorKind::Enumerate: {
      graph_.read(node, Kind::Slot, name, py::inner_offset(kind), inner);
      Item over;
      if (!record_advance(inner, item ? &over : nullptr)) {
        return false;
      }
      Item counter;
      counter.node = node;
      counter.ahead = advanced_[iterator]++;
      if (item == nullptr) {
        Ref<> number = steal(py::item_ahead(iterator, kind, 0));
        graph_.read(node, Kind::IteratorItem, nullptr, counter.ahead, number.get());
        return true;
      }
      item->parts.push_back(std::move(counter));
      item->parts.push_back(std::move(over));
      return true;
    }
    case IteratorKind::Zip: return record_zip_advance(iterator, node, item);
    case IteratorKind::Dict:
      if (advanced_[iterator]++ == 0) {
        graph_.read(node, Kind::Slot, name, py::inner_offset(kind), inner);
        for (Py_ssize_t offset : {py::position_offset(), py::used_offset()}) {
          graph_.read_word(node, offset, py::word_at_offset(iterator, offset));
        }
        if (inner != nullptr) {
          record_contents(inner);
        }
      }
      return inner != nullptr;
    case IteratorKind::Map:  // inside of another one: the exit would call its function again
      abort(AbortReason::IteratorOutside, "map");
      return false;
    default: break;
  }
  Py_ssize_t ahead = advanced_[iterator];
  Ref<> value = steal(py::item_ahead(iterator, kind, 0));
  if (!value) {
    graph_.read_iterator(node, ahead, false);
    return false;
  }
  ++advanced_[iterator];
  bool followed = item != nullptr && (PyLong_CheckExact(value.get()) || PyFloat_CheckExact(value.get()));
  if (followed) {
    graph_.read_iterator(node, ahead, true);
    item->node = node;
    item->ahead = ahead;
  } else {
    graph_.read(node, Kind::IteratorItem, nullptr, ahead, value.get());
  }
  return true;
}

// A map is where its iterators are: they are advanced, and the call is one like any other.
void Recorder::record_map_next(PyObject* iterator) {
  int node = graph_.node_of(iterator);
  PyObject* inner = py::inner_of(iterator, IteratorKind::Map);
  PyObject* function = py::object_at(iterator, py::mapped_offset());
  PyObject* const names[] = {py::names.over, py::names.function};
  graph_.read(node, Kind::Slot, names[0], py::inner_offset(IteratorKind::Map), inner);
  graph_.read(node, Kind::Slot, names[1], py::mapped_offset(), function);
  record_contents(inner);
  std::vector<Ref<>> kept;
  std::vector<PyObject*> arguments;
  for (Py_ssize_t i = 0; !ended_ && i < PyTuple_GET_SIZE(inner); ++i) {
    PyObject* one = PyTuple_GET_ITEM(inner, i);
    IteratorKind kind = py::iterator_kind(one);
    if (!py::has_items_ahead(kind)) {
      return abort(AbortReason::IteratorOutside, Py_TYPE(one)->tp_name);
    }
    kept.push_back(steal(py::item_ahead(one, kind, 0)));
    bool more = record_advance(one, nullptr);
    journal_.log_advance(one);
    if (!more) {
      return;
    }
    arguments.push_back(kept.back().get());
  }
  if (!ended_) {
    record_call(function, arguments.data(), static_cast<Py_ssize_t>(arguments.size()));
  }
}

bool Recorder::record_zip_advance(PyObject* iterator, int node, Item* item) {
  PyObject* inner = py::inner_of(iterator, IteratorKind::Zip);
  if (inner == nullptr) {
    abort(AbortReason::IteratorOutside, "zip");
    return false;
  }
  PyObject* const name = py::names.over;
  graph_.read(node, Kind::Slot, name, py::inner_offset(IteratorKind::Zip), inner);
  record_contents(inner);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inner); ++i) {
    Item part;
    if (!record_advance(PyTuple_GET_ITEM(inner, i), item ? &part : nullptr)) {
      // `strict` asks the others too, and raises unless all end together.
      bool together = i == 0;
      for (Py_ssize_t other = 1; py::is_strict(iterator) && together && other < PyTuple_GET_SIZE(inner); ++other) {
        together = !record_advance(PyTuple_GET_ITEM(inner, other), nullptr);
      }
      if (py::is_strict(iterator) && !together) {
        abort(AbortReason::IteratorOutside, "zip");
      }
      return false;
    }
    if (item != nullptr) {
      item->parts.push_back(std::move(part));
    }
  }
  return true;
}

// The item is there: numbers in it become copies that are no other object.
void Recorder::follow_item(PyObject** value, const Item& item) {
  if (item.node >= 0) {
    Followed followed;
    followed.node = item.node;
    followed.ahead = item.ahead;
    return follow(value, std::move(followed));
  }
  auto size = static_cast<Py_ssize_t>(item.parts.size());
  if (size == 0 || !PyTuple_CheckExact(*value) || PyTuple_GET_SIZE(*value) != size) {
    return;
  }
  Ref<> tuple = steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; tuple && i < size; ++i) {
    PyObject* part = Py_NewRef(PyTuple_GET_ITEM(*value, i));
    follow_item(&part, item.parts[i]);
    PyTuple_SET_ITEM(tuple.get(), i, part);
  }
  if (tuple) {
    Py_SETREF(*value, tuple.release());
  }
  forget_error();
}

}  // namespace alternator::record

#include "journal/journal.h"

#include <algorithm>

#include "base/boundary.h"
#include "base/error.h"
#include "base/shortage.h"
#include "py/members.h"

namespace alternator::journal {
namespace {

bool same_key(PyObject* a, PyObject* b) {
  return a == b ||
         (a != nullptr && b != nullptr && PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && _PyUnicode_EQ(a, b));
}

// Two keys of a dict, which run no code of the program's when they are compared; tensors are the same or not.
bool equal_key(PyObject* a, PyObject* b) {
  if (a == b || PyType_HasFeature(Py_TYPE(a), Py_TPFLAGS_HEAPTYPE) ||
      PyType_HasFeature(Py_TYPE(b), Py_TPFLAGS_HEAPTYPE)) {
    return a == b;
  }
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  forget_error();
  return equal == 1;
}

PyObject** slot_at(PyObject* owner, Py_ssize_t offset) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + offset);
}

PyObject* look(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset, bool* known) {
  switch (kind) {
    case PlaceKind::Attribute: return py::own_attribute(owner, key, known);
    case PlaceKind::DictItem: return py::dict_item(owner, key);
    case PlaceKind::Cell: return PyCell_GET(owner);
    case PlaceKind::Slot: return *slot_at(owner, offset);
    case PlaceKind::ClassAttribute: return py::dict_item(reinterpret_cast<PyTypeObject*>(owner)->tp_dict, key);
  }
  return nullptr;
}

std::string describe(const Place& place) {
  const char* name = place.key && PyUnicode_Check(place.key.get()) ? PyUnicode_AsUTF8(place.key.get()) : nullptr;
  forget_error();
  return (name ? "`" + std::string(name) + "`" : std::string("a value")) + " of an object of type " +
         Py_TYPE(place.owner.get())->tp_name;
}

}  // namespace

const Place* Journal::find(PyObject* owner, PyObject* key) const {
  auto [first, last] = by_owner_.equal_range(owner);
  for (auto at = first; at != last; ++at) {
    if (same_key(places_[at->second].key.get(), key)) {
      return &places_[at->second];
    }
  }
  return nullptr;
}

bool Journal::note(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset, bool was_read) {
  if (is_noted(owner, key)) {
    return true;
  }
  bool known = true;
  PyObject* old = look(kind, owner, key, offset, &known);
  if (known) {
    if (dropped_.capacity() <= places_.size()) {
      dropped_.reserve(2 * places_.size() + 8);
    }
    by_owner_.emplace(owner, places_.size());
    places_.push_back({kind, share(owner), share(key), share(old), offset, was_read});
  }
  return known;
}

bool Journal::note_deletion(PyObject* owner, PyObject* key) {
  auto* place = const_cast<Place*>(find(owner, key));
  place->deleted = true;
  if (place->kind != PlaceKind::Attribute || !place->old) {
    return place->kind != PlaceKind::DictItem || !place->old;
  }
  Ref<> dict = steal(PyObject_GenericGetDict(owner, nullptr));
  Ref<> names = dict ? steal(PyDict_Keys(dict.get())) : nullptr;
  forget_error();
  if (!names) {
    return false;
  }
  // Names that the trace itself added are no part of the order.
  for (const Place& one : places_) {
    if (one.owner.get() == owner && !one.old && PySequence_Contains(names.get(), one.key.get()) == 1) {
      Ref<> index = steal(PyObject_CallMethod(names.get(), "remove", "O", one.key.get()));
    }
  }
  forget_error();
  orders_.emplace_back(share(owner), std::move(names));
  return true;
}

bool Journal::note_body(PyObject* owner) {
  if (body_of_.count(owner) != 0) {
    return true;
  }
  py::BodyKind kind = py::body_kind(owner);
  Ref<> twin = kind != py::BodyKind::None ? steal(py::make_twin(owner, kind)) : nullptr;
  forget_error();
  if (!twin) {
    return false;
  }
  body_of_.emplace(owner, bodies_.size());
  Body& body = bodies_.emplace_back(Body{kind, share(owner), std::move(twin), {}});
#if defined(ALTERNATOR_CHECKS)
  body.contents = py::list_contents(owner, kind);
#endif
  py::exchange_bodies(owner, body.twin.get(), kind);
  return true;
}

bool Body::is_overwritten(PyObject* key) const {
  return std::any_of(overwritten.begin(), overwritten.end(),
                     [&](const Ref<>& one) { return same_key(one.get(), key); });
}

bool Body::is_removed(PyObject* key) const {
  return std::any_of(removed.begin(), removed.end(), [&](const Ref<>& one) { return equal_key(one.get(), key); });
}

void Journal::note_removed(PyObject* owner, PyObject* key) {
  Body& body = bodies_[body_of_.at(owner)];
  if (!body.is_removed(key)) {
    body.removed.push_back(share(key));
  }
}

void Journal::note_overwritten(PyObject* owner, PyObject* key) {
  Body& body = bodies_[body_of_.at(owner)];
  if (!body.is_overwritten(key)) {
    body.overwritten.push_back(share(key));
  }
}

bool Journal::is_overwritten(PyObject* owner, PyObject* key) const {
  auto found = body_of_.find(owner);
  return found != body_of_.end() && bodies_[found->second].is_overwritten(key);
}

Py_ssize_t Journal::count_references(PyObject* object) const {
  Py_ssize_t count = 0;
  for (const Place& place : places_) {
    count += (place.owner.get() == object) + (place.key.get() == object) + (place.old.get() == object);
  }
  for (const Body& body : bodies_) {
    std::vector<PyObject*> contents = py::list_contents(body.twin.get(), body.kind);
    count += (body.owner.get() == object) + std::count(contents.begin(), contents.end(), object);
  }
  return count +
         std::count_if(advances_.begin(), advances_.end(), [&](const Ref<>& one) { return one.get() == object; });
}

void Journal::note_iterator(PyObject* iterator) { iterators_.try_emplace(iterator, iterator); }

PyObject* Journal::original(PyObject* owner) const {
  auto found = body_of_.find(owner);
  return found == body_of_.end() ? nullptr : bodies_[found->second].twin.get();
}

PyObject* Journal::current(const Place& place) {
  bool known = true;
  return look(place.kind, place.owner.get(), place.key.get(), place.offset, &known);
}

const CacheCalls* Journal::calls_of(PyObject* cache) {
  for (const CacheCalls& known : cache_calls_) {
    if (known.cache.get() == cache) {
      return &known;
    }
  }
  CacheCalls made{share(cache), steal(PyDict_New()), steal(PyList_New(0))};
  if (!made.results || !made.calls) {
    return nullptr;
  }
  cache_calls_.push_back(std::move(made));
  return &cache_calls_.back();
}

void Journal::roll_back() noexcept {
  body_of_.clear();
  by_owner_.clear();
  try {
    put_back();
  } catch (...) {
    die_of_exception("kept the journal from being rolled back");
  }
  check_put_back();
  // Now that everything is as it was, what the trace left is dropped: its finalisers must find the world as it was.
  std::vector<Ref<>> dropped = std::move(dropped_);
  std::vector<Place> places = std::move(places_);
  std::vector<Body> bodies = std::move(bodies_);
  std::vector<CacheCalls> cache_calls = std::move(cache_calls_);
  std::vector<LateCall> late_calls = std::move(late_calls_);
  for (auto* list : {&dropped_, &advances_}) {
    list->clear();
  }
  cache_calls_.clear();
  late_calls_.clear();
  orders_.clear();
  iterators_.clear();
  places_.clear();
  bodies_.clear();
}

void Journal::put_back() {
  for (auto& [iterator, state] : iterators_) {
    state.restore();
  }
  for (auto body = bodies_.rbegin(); body != bodies_.rend(); ++body) {
    py::exchange_bodies(body->owner.get(), body->twin.get(), body->kind);
  }
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    PyObject* now = current(*place);
    if (now == place->old.get()) {
      continue;
    }
    dropped_.push_back(share(now));
    if (!write_place(place->kind, place->owner.get(), place->key.get(), place->offset, place->old.get())) {
      die("cannot put back " + describe(*place) + " after a trace");
    }
    forget_error();
  }
  for (auto order = orders_.rbegin(); order != orders_.rend(); ++order) {
    if (!py::reorder_attributes(order->first.get(), order->second.get())) {
      die(std::string("cannot put back the order of the attributes of an object of type ") +
          Py_TYPE(order->first.get())->tp_name + " after a trace");
    }
    forget_error();
  }
}

// I1: what the journal has is as it was.
void Journal::check_put_back() const {
#if defined(ALTERNATOR_CHECKS)
  for (const Place& place : places_) {
    ALTERNATOR_CHECK(current(place) == place.old.get(), "I1: a place is as it was");
  }
  for (const Body& body : bodies_) {
    ALTERNATOR_CHECK(py::list_contents(body.owner.get(), body.kind) == body.contents, "I1: a container is as it was");
  }
#endif
}

bool write_place(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset, PyObject* value) {
  switch (kind) {
    case PlaceKind::Attribute: return PyObject_GenericSetAttr(owner, key, value) == 0;
    case PlaceKind::DictItem:
      return (value != nullptr ? PyDict_SetItem(owner, key, value) : PyDict_DelItem(owner, key)) == 0;
    case PlaceKind::Cell: return PyCell_Set(owner, value) == 0;
    case PlaceKind::Slot: {
      PyObject* old = *slot_at(owner, offset);
      *slot_at(owner, offset) = Py_XNewRef(value);
      Py_XDECREF(old);
      return true;
    }
    case PlaceKind::ClassAttribute: return PyType_Type.tp_setattro(owner, key, value) == 0;
  }
  return false;
}

}  // namespace alternator::journal

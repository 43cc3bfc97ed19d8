#include "journal/journal.h"

#include "base/error.h"
#include "py/members.h"

namespace alternator::journal {
namespace {

bool same_key(PyObject* a, PyObject* b) {
  return a == b ||
         (a != nullptr && b != nullptr && PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && _PyUnicode_EQ(a, b));
}

PyObject* look(PlaceKind kind, PyObject* owner, PyObject* key, bool* known) {
  switch (kind) {
    case PlaceKind::Attribute: return py::own_attribute(owner, key, known);
    case PlaceKind::DictItem: return py::dict_item(owner, key);
    case PlaceKind::Cell: return PyCell_GET(owner);
  }
  return nullptr;
}

}  // namespace

bool Journal::is_noted(PyObject* owner, PyObject* key) const {
  for (const Place& place : places_) {
    if (place.owner.get() == owner && same_key(place.key.get(), key)) {
      return true;
    }
  }
  return false;
}

bool Journal::note(PlaceKind kind, PyObject* owner, PyObject* key) {
  if (is_noted(owner, key)) {
    return true;
  }
  bool known = true;
  PyObject* old = look(kind, owner, key, &known);
  if (known) {
    places_.push_back({kind, share(owner), share(key), share(old)});
  }
  return known;
}

PyObject* Journal::current(const Place& place) {
  bool known = true;
  return look(place.kind, place.owner.get(), place.key.get(), &known);
}

void Journal::roll_back() {
  while (!places_.empty()) {
    Place place = std::move(places_.back());
    places_.pop_back();
    if (current(place) == place.old.get()) {
      continue;
    }
    bool written = write_place(place.kind, place.owner.get(), place.key.get(), place.old.get());
    ALTERNATOR_ENSURE(written, "a journaled place can be written back");
    PyErr_Clear();
  }
}

bool write_place(PlaceKind kind, PyObject* owner, PyObject* key, PyObject* value) {
  switch (kind) {
    case PlaceKind::Attribute: return PyObject_GenericSetAttr(owner, key, value) == 0;
    case PlaceKind::DictItem:
      return (value != nullptr ? PyDict_SetItem(owner, key, value) : PyDict_DelItem(owner, key)) == 0;
    case PlaceKind::Cell: return PyCell_Set(owner, value) == 0;
  }
  return false;
}

}  // namespace alternator::journal

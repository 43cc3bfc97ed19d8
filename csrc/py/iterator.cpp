#include "py/iterator.h"

#include <cstddef>

#include "base/once.h"
#include "py/instance.h"

namespace alternator::py {
namespace {

// As laid out by Objects/listobject.c, tupleobject.c, rangeobject.c, enumobject.c, dictobject.c and Python/bltinmodule.c.
struct SequenceIterator {
  PyObject_HEAD Py_ssize_t index;
  PyObject* sequence;
};
struct RangeIterator {
  PyObject_HEAD long index, start, step, length;
};
struct Enumerate {
  PyObject_HEAD Py_ssize_t index;
  PyObject *inner, *result, *long_index, *one;
};
struct Zip {
  PyObject_HEAD Py_ssize_t size;
  PyObject *inner, *result;
  int strict;
};
struct Map {
  PyObject_HEAD PyObject *inner, *function;
};
struct DictIterator {
  PyObject_HEAD PyObject* dict;
  Py_ssize_t used, position;
  PyObject* result;
  Py_ssize_t length;
};

struct Layout {
  IteratorKind kind;
  PyTypeObject* type;
  Py_ssize_t inner;
  std::vector<Py_ssize_t> words, objects;
};

template <class T>
const T* as(PyObject* object) {
  return reinterpret_cast<const T*>(object);
}

const std::vector<Layout>& layouts() {
  static constinit Once<const std::vector<Layout>*> rows;
  return *rows.get([] {
    return new std::vector<Layout>{
        {IteratorKind::List,
         &PyListIter_Type,
         offsetof(SequenceIterator, sequence),
         {offsetof(SequenceIterator, index)},
         {offsetof(SequenceIterator, sequence)}},
        {IteratorKind::ListReversed,
         &PyListRevIter_Type,
         offsetof(SequenceIterator, sequence),
         {offsetof(SequenceIterator, index)},
         {offsetof(SequenceIterator, sequence)}},
        {IteratorKind::Tuple,
         &PyTupleIter_Type,
         offsetof(SequenceIterator, sequence),
         {offsetof(SequenceIterator, index)},
         {offsetof(SequenceIterator, sequence)}},
        {IteratorKind::Range, &PyRangeIter_Type, 0, {offsetof(RangeIterator, index)}, {}},
        {IteratorKind::Enumerate,
         &PyEnum_Type,
         offsetof(Enumerate, inner),
         {offsetof(Enumerate, index)},
         {offsetof(Enumerate, inner), offsetof(Enumerate, result), offsetof(Enumerate, long_index)}},
        {IteratorKind::Map, &PyMap_Type, offsetof(Map, inner), {}, {}},
        {IteratorKind::Zip, &PyZip_Type, offsetof(Zip, inner), {}, {offsetof(Zip, inner), offsetof(Zip, result)}},
        {IteratorKind::Dict,
         &PyDictIterKey_Type,
         offsetof(DictIterator, dict),
         {offsetof(DictIterator, used), offsetof(DictIterator, position), offsetof(DictIterator, length)},
         {offsetof(DictIterator, dict), offsetof(DictIterator, result)}},
        {IteratorKind::Dict,
         &PyDictIterValue_Type,
         offsetof(DictIterator, dict),
         {offsetof(DictIterator, used), offsetof(DictIterator, position), offsetof(DictIterator, length)},
         {offsetof(DictIterator, dict), offsetof(DictIterator, result)}},
        {IteratorKind::Dict,
         &PyDictIterItem_Type,
         offsetof(DictIterator, dict),
         {offsetof(DictIterator, used), offsetof(DictIterator, position), offsetof(DictIterator, length)},
         {offsetof(DictIterator, dict), offsetof(DictIterator, result)}},
    };
  });
}

const Layout* layout_of(PyObject* iterator) {
  for (const Layout& layout : layouts()) {
    if (Py_IS_TYPE(iterator, layout.type)) {
      return &layout;
    }
  }
  return nullptr;
}

}  // namespace

IteratorKind iterator_kind(PyObject* iterator) {
  const Layout* layout = layout_of(iterator);
  return layout ? layout->kind : IteratorKind::None;
}

Py_ssize_t count_ahead(PyObject* iterator, IteratorKind kind) {
  if (kind == IteratorKind::Range) {
    return as<RangeIterator>(iterator)->length - as<RangeIterator>(iterator)->index;
  }
  const auto* over = as<SequenceIterator>(iterator);
  if (over->sequence == nullptr) {
    return 0;
  }
  Py_ssize_t size = Py_SIZE(over->sequence);
  Py_ssize_t ahead =
      kind == IteratorKind::ListReversed ? (over->index < size ? over->index + 1 : 0) : size - over->index;
  return ahead > 0 ? ahead : 0;
}

PyObject* item_ahead(PyObject* iterator, IteratorKind kind, Py_ssize_t ahead) {
  if (kind == IteratorKind::Enumerate) {
    return PyLong_FromSsize_t(as<Enumerate>(iterator)->index + ahead);
  }
  if (ahead >= count_ahead(iterator, kind)) {
    return nullptr;
  }
  if (kind == IteratorKind::Range) {
    const auto* range = as<RangeIterator>(iterator);
    return PyLong_FromLong(range->start + (range->index + ahead) * range->step);
  }
  const auto* over = as<SequenceIterator>(iterator);
  Py_ssize_t index = kind == IteratorKind::ListReversed ? over->index - ahead : over->index + ahead;
  return Py_NewRef(kind == IteratorKind::Tuple ? PyTuple_GET_ITEM(over->sequence, index)
                                               : PyList_GET_ITEM(over->sequence, index));
}

Py_ssize_t inner_offset(IteratorKind kind) {
  for (const Layout& layout : layouts()) {
    if (layout.kind == kind) {
      return layout.inner;
    }
  }
  return 0;
}

PyObject* inner_of(PyObject* iterator, IteratorKind kind) {
  return kind == IteratorKind::Range ? nullptr : object_at(iterator, inner_offset(kind));
}

Py_ssize_t mapped_offset() { return offsetof(Map, function); }

bool is_strict(PyObject* zip) { return as<Zip>(zip)->strict != 0; }

Py_ssize_t position_offset() { return offsetof(DictIterator, position); }
Py_ssize_t used_offset() { return offsetof(DictIterator, used); }

IteratorState::IteratorState(PyObject* iterator) : iterator_(share(iterator)) {
  if (const Layout* layout = layout_of(iterator)) {
    for (Py_ssize_t offset : layout->words) {
      words_.emplace_back(offset, word_at_offset(iterator, offset));
    }
    for (Py_ssize_t offset : layout->objects) {
      objects_.emplace_back(offset, share(object_at(iterator, offset)));
    }
  }
}

void IteratorState::restore() {
  for (const auto& [offset, word] : words_) {
    word_at_offset(iterator_.get(), offset) = word;
  }
  for (auto& [offset, object] : objects_) {
    PyObject*& place = object_at(iterator_.get(), offset);
    PyObject* old = place;
    place = object.release();
    Py_XDECREF(old);
  }
}

}  // namespace alternator::py

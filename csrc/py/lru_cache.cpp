#include "py/lru_cache.h"

#include "base/boundary.h"
#include "base/once.h"
#include "base/shortage.h"

namespace alternator::py {
namespace {

PyObject* give_self(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) { return Py_NewRef(self); }

PyMethodDef give_method = {"give", as_method<give_self>(), METH_FASTCALL | METH_KEYWORDS, nullptr};

// A cache with the limit 3 whose function gives 7, called once with 5.
bool is_as_expected(PyObject* object, PyObject* function) {
  auto* cache = reinterpret_cast<Cache*>(object);
  constexpr Py_ssize_t kWords = sizeof(Cache) / sizeof(void*);
  if (Py_TYPE(object)->tp_basicsize != static_cast<Py_ssize_t>(kWords * sizeof(void*)) || cache->limit != 3 ||
      cache->misses != 1 || cache->hits != 0 || cache->typed != 0 || cache->function != function ||
      cache->results == nullptr || !PyDict_CheckExact(cache->results) || PyDict_GET_SIZE(cache->results) != 1 ||
      cache->mark == nullptr || !Py_IS_TYPE(cache->mark, &PyBaseObject_Type)) {
    return false;
  }
  Ref<> key = steal(PyLong_FromLong(5));
  PyObject* link = key ? PyDict_GetItemWithError(cache->results, key.get()) : nullptr;
  return link != nullptr && Py_IS_TYPE(link, cache->link_type) && cache->link_type->tp_basicsize == sizeof(CacheLink) &&
         PyLong_AsLong(reinterpret_cast<CacheLink*>(link)->result) == 7;
}

struct Known {
  PyTypeObject* type = nullptr;  // null: they are not like that
  PyObject* mark = nullptr;
};

Known try_out() {
  Ref<> module = steal(PyImport_ImportModule("functools"));
  Ref<> make = module ? steal(PyObject_CallMethod(module.get(), "lru_cache", "i", 3)) : nullptr;
  Ref<> seven = make ? steal(PyLong_FromLong(7)) : nullptr;
  Ref<> function = seven ? steal(PyCFunction_New(&give_method, seven.get())) : nullptr;
  Ref<> cache = function ? steal(PyObject_CallOneArg(make.get(), function.get())) : nullptr;
  Ref<> called = cache ? steal(PyObject_CallFunction(cache.get(), "i", 5)) : nullptr;
  bool expected = called && is_as_expected(cache.get(), function.get());
  forget_error();
  if (!expected) {
    return {};
  }
  return {Py_TYPE(cache.get()), reinterpret_cast<Cache*>(cache.get())->mark};  // the module keeps both
}

const Known& known() {
  static constinit Once<Known> found;
  return found.get(try_out);
}

}  // namespace

Cache* as_cache(PyObject* object) {
  return known().type != nullptr && Py_IS_TYPE(object, known().type) ? reinterpret_cast<Cache*>(object) : nullptr;
}

bool is_cache_mark(PyObject* object) { return object == known().mark; }

bool put_into_cache(Cache* cache, PyObject* args, PyObject* kwargs, PyObject* result) {
  Ref<> give = steal(PyCFunction_New(&give_method, result));
  if (!give) {
    return false;
  }
  Ref<> kept = share(reinterpret_cast<PyObject*>(cache));
  PyObject* function = std::exchange(cache->function, give.get());
  Ref<> done = steal(PyObject_Call(kept.get(), args, kwargs));
  cache->function = function;
  return static_cast<bool>(done);
}

}  // namespace alternator::py

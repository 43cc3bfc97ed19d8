// The caches of functools.lru_cache: what they hold, and how a result is put into one.
#pragma once

#include "base/ref.h"
#include "py/python.h"

namespace alternator::py {

// As in CPython's Modules/_functoolsmodule.c, which has no header.
struct CacheLink {
  PyObject_HEAD CacheLink* previous;
  CacheLink* next;
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
};
struct Cache {
  CacheLink root;  // with the head of the object
  void* call;
  int typed;
  PyObject* results;  // a dict: key -> CacheLink, or the result itself if the cache has no limit
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t limit;  // -1: none
  Py_ssize_t misses;
  PyObject* mark;  // between positional arguments and keywords in a key
  PyTypeObject* link_type;
  PyObject* info_type;
  PyObject* attributes;
  PyObject* weakrefs;
};

// The cache, if the object is one and this Python's are like that, which is tried out once; else null.
Cache* as_cache(PyObject* object);

// What the dict of a cache with a limit holds.
inline PyObject* result_of_link(PyObject* link) { return reinterpret_cast<CacheLink*>(link)->result; }

// What stands between positional arguments and keywords in the keys of all caches.
bool is_cache_mark(PyObject* object);

// Calls the cache as the program would, with what its function would give. False with an exception set.
bool put_into_cache(Cache* cache, PyObject* args, PyObject* kwargs, PyObject* result);

}  // namespace alternator::py

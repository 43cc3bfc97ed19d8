#include "api/failing_memory.h"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/phase.h"
#include "py/loop.h"

namespace alternator::api {
namespace {

enum class Library : uint8_t { Python, Capture, Core, Other };

struct Range {
  uintptr_t begin, end;
  Library library;
};

// CPython, its extension modules and the C and C++ libraries are all the same here: they allocate for whoever calls them.
Library library_of(const char* path) {
  if (std::strstr(path, "libalternator_core") != nullptr || std::strstr(path, "/_C.cpython") != nullptr) {
    return Library::Core;
  }
  if (std::strstr(path, "alternator/_capture") != nullptr) {
    return Library::Capture;
  }
  for (const char* part : {"libpython", "lib-dynload", "libc.so", "libstdc++", "libgcc", "libm.so", "ld-linux"}) {
    if (std::strstr(path, part) != nullptr) {
      return Library::Python;
    }
  }
  return *path == '\0' ? Library::Python : Library::Other;  // the executable itself has no name
}

struct Counter {
  PyMemAllocatorEx mem, obj;
  std::vector<Range> ranges;
  std::string package;  // its folder
  std::string tests;    // the file of the package that is not looked at: it starts and ends the count
  int64_t at = -1;
  int64_t seen = 0;
  bool failed = false;
  bool capturing = false;  // when it failed
  bool on = false;
};
Counter counter;  // guarded by the GIL, as these allocators are

int note_ranges(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
      uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      counter.ranges.push_back({begin, begin + part.p_memsz, library_of(info->dlpi_name)});
    }
  }
  return 0;
}

Library library_at(uintptr_t address) {
  for (const Range& range : counter.ranges) {
    if (address >= range.begin && address < range.end) {
      return range.library;
    }
  }
  return Library::Other;
}

// Whose allocation it is: that of the innermost code that is not CPython's own. Outwards from the allocator, the first of
//
//   a loop of CPython    ours if the code that it runs is a file of the package; the program's, the backend's or torch's if not
//   _capture             ours
//   the core             ours if _capture called it; the program's if CPython did: then it is the loop that runs the program
//   any other library    not ours
//
// A loop is on the C stack where its link (py::innermost_loop) is.
struct Walk {
  uintptr_t loop = 0;
  bool below_allocator = false;
  bool in_core = false;
  bool ours = false;
};

bool runs_our_code() {
  PyObject* file = py::running_file(py::current_thread());
  const char* path = file != nullptr && PyUnicode_IS_COMPACT_ASCII(file) ? PyUnicode_AsUTF8(file) : "";
  return std::strncmp(path, counter.package.c_str(), counter.package.size()) == 0 && path != counter.tests;
}

_Unwind_Reason_Code step(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  Library library = library_at(_Unwind_GetIP(context) - 1);
  if (!walk.below_allocator) {  // the frames of this file
    walk.below_allocator = library == Library::Python;
    return _URC_NO_REASON;
  }
  // What the unwinder gives here is where this frame's part of the stack begins.
  if (walk.loop < _Unwind_GetCFA(context)) {
    walk.ours = !walk.in_core && runs_our_code();
    return _URC_END_OF_STACK;
  }
  if (library == Library::Core) {
    walk.in_core = true;
    return _URC_NO_REASON;
  }
  if (library == Library::Python && !walk.in_core) {
    return _URC_NO_REASON;
  }
  walk.ours = library == Library::Capture;
  return _URC_END_OF_STACK;
}

bool is_ours() {
  Walk walk;
  walk.loop = reinterpret_cast<uintptr_t>(py::innermost_loop(py::current_thread()));
  _Unwind_Backtrace(step, &walk);
  return walk.ours;
}

// For a debugger, which stops here: the stack says whose allocation it is.
__attribute__((noinline)) void note_failure() {
  counter.failed = true;
  counter.capturing = Phased::is_capturing();
}

bool fails() {
  if (!counter.on || !is_ours()) {
    return false;
  }
  bool now = counter.seen++ == counter.at;
  if (now) {
    note_failure();
  }
  return now;
}

void* allocate(void* context, size_t size) {
  auto* inner = static_cast<PyMemAllocatorEx*>(context);
  return fails() ? nullptr : inner->malloc(inner->ctx, size);
}
void* allocate_cleared(void* context, size_t count, size_t size) {
  auto* inner = static_cast<PyMemAllocatorEx*>(context);
  return fails() ? nullptr : inner->calloc(inner->ctx, count, size);
}
void* allocate_again(void* context, void* old, size_t size) {
  auto* inner = static_cast<PyMemAllocatorEx*>(context);
  return fails() ? nullptr : inner->realloc(inner->ctx, old, size);
}
void deallocate(void* context, void* old) {
  auto* inner = static_cast<PyMemAllocatorEx*>(context);
  inner->free(inner->ctx, old);
}

}  // namespace

PyObject* count_memory(PyObject*, PyObject* args) {
  long long number;
  const char* file;
  if (!PyArg_ParseTuple(args, "Ls", &number, &file)) {
    return nullptr;
  }
  if (counter.on) {
    return PyErr_Format(PyExc_RuntimeError, "memory is being counted already");
  }
  counter.tests = file;
  counter.package = counter.tests.substr(0, counter.tests.rfind('/') + 1);
  counter.ranges.clear();
  dl_iterate_phdr(note_ranges, nullptr);
  counter.at = number;
  counter.seen = 0;
  counter.failed = false;
  counter.capturing = false;
  PyMem_GetAllocator(PYMEM_DOMAIN_MEM, &counter.mem);
  PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &counter.obj);
  PyMemAllocatorEx mem{&counter.mem, allocate, allocate_cleared, allocate_again, deallocate};
  PyMemAllocatorEx obj{&counter.obj, allocate, allocate_cleared, allocate_again, deallocate};
  PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &mem);
  PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &obj);
  counter.on = true;
  Py_RETURN_NONE;
}

PyObject* release_memory(PyObject*, PyObject*) {
  if (counter.on) {
    counter.on = false;
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &counter.mem);
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &counter.obj);
  }
  return Py_BuildValue("LOO", static_cast<long long>(counter.seen), counter.failed ? Py_True : Py_False,
                       counter.capturing ? Py_True : Py_False);
}

}  // namespace alternator::api

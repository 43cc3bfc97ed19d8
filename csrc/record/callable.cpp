#include "record/callable.h"

#include <cstring>

#include "base/shortage.h"
#include "py/names.h"
#include "record/contract.h"

namespace alternator::record {

// An object without a name is not asked for its text, which may be code of the program.
std::string describe_callable(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  bool cached = std::strcmp(type->tp_name, "functools._lru_cache_wrapper") == 0;
  bool named = cached || PyFunction_Check(callable) || PyCFunction_Check(callable) || PyType_Check(callable) ||
               type == &PyMethod_Type || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
               type == &PyClassMethodDescr_Type || is_method_wrapper(callable);
  Ref<> text = named ? steal(_PyObject_FunctionStr(callable)) : nullptr;
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  if (utf8 == nullptr) {
    return std::string("an object of class ") + type->tp_name;
  }
  std::string result = utf8;
  size_t record = result.find("pybind11_detail_function_record");  // what its functions are methods of
  if (size_t dot = result.find('.', record); record != std::string::npos && dot != std::string::npos) {
    result.erase(record, dot + 1 - record);
  }
  return cached ? result + ", which has a cache" : result;
}

namespace {

PyObject* own_attribute_of_function(PyObject* function, const char* name) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return attributes ? PyDict_GetItemString(attributes, name) : nullptr;
}

}  // namespace

bool asks_to_skip(PyObject* function) {
  Ref<> module = steal(PyObject_GetAttrString(function, "__module__"));
  forget_error();
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_CompareWithASCIIString(module.get(), "torch._dynamo.decorators") == 0 &&
         PyUnicode_CompareWithASCIIString(reinterpret_cast<PyFunctionObject*>(function)->func_name, "skip_frame") == 0;
}

std::string quote_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  std::string text = describe_callable(callable);
  std::string given;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref<> one = PyUnicode_CheckExact(arguments[i]) && PyUnicode_GET_LENGTH(arguments[i]) < 200
                    ? steal(PyObject_Repr(arguments[i]))
                    : steal(PyUnicode_FromString(Py_TYPE(arguments[i])->tp_name));
    const char* utf8 = one ? PyUnicode_AsUTF8(one.get()) : nullptr;
    given += (i > 0 ? ", " : "") + std::string(utf8 ? utf8 : "?");
  }
  if (text.ends_with("()")) {
    text.insert(text.size() - 1, given);
  }
  PyObject* why =
      PyFunction_Check(callable) ? own_attribute_of_function(callable, "_torchdynamo_disable_msg") : nullptr;
  if (why != nullptr && PyUnicode_Check(why)) {
    const char* utf8 = PyUnicode_AsUTF8(why);
    text += std::string(", which is disabled: ") + (utf8 ? utf8 : "?");
  }
  forget_error();
  return text;
}

bool passes_on_to_python(PyObject* callable) {
  PyObject* const names[] = {py::names.__call__, py::names.__init__};
  bool is_class = PyType_Check(callable);
  PyObject* found =
      _PyType_Lookup(is_class ? reinterpret_cast<PyTypeObject*>(callable) : Py_TYPE(callable), names[is_class]);
  return found != nullptr && PyFunction_Check(found);
}

bool is_opaque_callable(PyObject* object) {
  return PyCallable_Check(object) && !PyFunction_Check(object) && !PyType_Check(object) && !PyCFunction_Check(object) &&
         !Py_IS_TYPE(object, &PyMethod_Type) && !Py_IS_TYPE(object, &PyMethodDescr_Type) &&
         !passes_on_to_python(object);
}

PyObject* receiver_of(PyObject* callable) {
  if (is_method_wrapper(callable)) {
    Ref<> self = steal(PyObject_GetAttrString(callable, "__self__"));
    forget_error();
    return self.get();  // the wrapper keeps it
  }
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self != nullptr && !PyModule_Check(self) && !PyType_Check(self) ? self : nullptr;
}

}  // namespace alternator::record

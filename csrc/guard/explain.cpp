// Why guards do not hold, in the user's words: "`n` was 3, is now 4".
#include "base/shortage.h"
#include "guard/fetch.h"
#include "py/body.h"
#include "py/instance.h"
#include "py/iterator.h"
#include "py/ordered_dict.h"

namespace alternator::guard {

// L['x'].y is x.y to the user, and so is G['x'].y; inside of other names too: len(L['x']), d[L['x']]. What has no name is
// said in words.
std::string spoken(std::string text) {
  struct Unnamed {
    const char* name;
    const char* words;
  };
  for (const Unnamed& unnamed : {Unnamed{"L['___stack", "<a value in the middle of an expression>"},
                                 Unnamed{"L['___frame", "<the function that runs>"}}) {
    for (size_t at = text.find(unnamed.name); at != std::string::npos; at = text.find(unnamed.name, at)) {
      size_t end = text.find("']", at);
      if (end == std::string::npos) {
        break;
      }
      text.replace(at, end + 2 - at, unnamed.words);
    }
  }
  for (const char* scope : {"L['", "G['"}) {
    for (size_t at = text.find(scope); at != std::string::npos; at = text.find(scope, at)) {
      size_t end = text.find("']", at);
      bool begins = at == 0 || text[at - 1] == '(' || text[at - 1] == '[' || text[at - 1] == ' ' || text[at - 1] == '`';
      if (!begins || end == std::string::npos) {
        at += 3;
        continue;
      }
      text.erase(end, 2).erase(at, 3);
    }
  }
  return text;
}

namespace {

constexpr size_t kLongest = 200;  // characters of a value

std::string text_of(PyObject* text) {
  const char* utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  forget_error();
  return utf8 ? utf8 : "?";
}

// The name of an object that has one of its own; empty if it has none.
std::string own_name(PyObject* object) {
  if (PyType_Check(object)) {
    return std::string("class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  }
  if (PyFunction_Check(object)) {
    return "function " + text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  }
  if (PyCFunction_Check(object)) {
    return std::string("function ") + reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  }
  if (PyCode_Check(object)) {
    return "code of " + text_of(reinterpret_cast<PyCodeObject*>(object)->co_qualname);
  }
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    forget_error();
    return std::string("module ") + (name ? name : "?");
  }
  return "";
}

std::string shown(PyObject* object) {
  if (object == nullptr) {
    return "absent";
  }
  if (source::sort_of(object) == source::Sort::Primitive) {
    Ref<> text = steal(PyObject_Repr(object));
    std::string value = text_of(text.get());
    return value.size() <= kLongest ? value : value.substr(0, kLongest) + " ..";
  }
  std::string name = own_name(object);
  return !name.empty() ? name : std::string("an object of type ") + Py_TYPE(object)->tp_name;
}

std::string key_text(const Guard& guard, bool quoted) {
  if (!guard.key) {
    return std::to_string(guard.index);
  }
  PyObject* key = guard.key.get();
  if (key == nullptr) {
    return "<gone>";
  }
  if (guard.kind == Kind::Setting && PyCFunction_Check(key)) {
    return reinterpret_cast<PyCFunctionObject*>(key)->m_ml->ml_name;
  }
  return PyUnicode_Check(key) && !quoted ? text_of(key) : shown(key);
}

std::string change(const std::string& before, const std::string& now) {
  return before == now ? "is now another one of the same name: " + now : "was " + before + ", is now " + now;
}

std::string explain_keys(const std::string& name, const Guard& guard, PyObject* dict) {
  Py_ssize_t count = length_of(dict);
  if (count != static_cast<Py_ssize_t>(guard.items.size())) {
    return "`len(" + name + ")` was " + std::to_string(guard.items.size()) + ", is now " + std::to_string(count);
  }
  std::string text = "`" + name + "` has other keys now";
  if (guard.kind == Kind::DictKeys) {
    size_t index = 0;
    py::visit_keys(dict, [&](PyObject* key) {
      const source::Mark& mark = guard.items[index++];
      if (!mark.is(key)) {
        text = "key " + std::to_string(index - 1) + " of `" + name + "` " +
               change(mark.value() ? shown(mark.value()) : "an object", shown(key));
        return false;
      }
      return true;
    });
  }
  return text;
}

std::string explain_class(const std::string& name, const Guard& guard, PyObject* type) {
  std::string attribute = guard.contents->difference(reinterpret_cast<PyTypeObject*>(type));
  return attribute.empty() ? "the class `" + name + "` changed" : "`" + name + "." + attribute + "` changed";
}

std::string explain_iterator(const std::string& name, const Guard& guard, PyObject* iterator) {
  std::string expected = std::to_string(guard.index);
  return "`" + name + "` had " + (guard.kind == Kind::IteratorMore ? "more than " : "") + expected +
         " items left, has now " + std::to_string(py::count_ahead(iterator, py::iterator_kind(iterator)));
}

// For the kinds whose guards expect nothing of one object; empty for the others.
std::string explain_kind(const GuardList& list, const Guard& guard, PyObject* parent) {
  std::string name = guard.parent >= 0 ? spoken(list.names[guard.parent]) : "";
  std::string what = "`" + spoken(describe(list, guard)) + "` ";
  switch (guard.kind) {
    case Kind::Length: return what + change(std::to_string(guard.index), std::to_string(length_of(parent)));
    case Kind::TensorFacts: return what + guard.facts->difference(parent);
    case Kind::DictKeys:
    case Kind::SetItems: return explain_keys(name, guard, parent);
    case Kind::SetLayout: return what + "was filled in another way";
    case Kind::TypeVersion: return explain_class(name, guard, parent);
    case Kind::Setting: return what + change(shown(guard.value.get()), shown(read_setting(guard).get()));
    case Kind::CAttribute: return what + change(shown(guard.value.get()), shown(read_c_attribute(guard, parent).get()));
    case Kind::BaseValue: {
      Ref<> now = steal(py::base_value(parent));
      return what + change(shown(guard.value.get()), now ? shown(now.get()) : "something else");
    }
    case Kind::IteratorMore:
    case Kind::IteratorEnd: return explain_iterator(name, guard, parent);
    case Kind::IteratorItem: return "item " + std::to_string(guard.index) + " of `" + name + "` changed";
    case Kind::CacheEntry: return what + "of a cache was absent, is not any more or the cache is full";
    case Kind::Word: return what + "is in another state: an iterator stands elsewhere, a deque's maxlen is another, ..";
    case Kind::AllDistinct:
      return "objects that were several, like `" + spoken(list.names[guard.child]) + "`, have become one";
    case Kind::Distinct:
      return "`" + name + "` and `" + spoken(list.names[guard.child]) + "` were two objects, are now one";
    default: return "";
  }
}

}  // namespace

std::string describe(const GuardList& list, const Guard& guard) {
  std::string text = kind_text(guard.kind);
  auto replace = [&](const char* mark, const std::string& by) {
    size_t at = text.find(mark);
    if (at != std::string::npos) {
      text.replace(at, 3, by);
    }
  };
  replace("{p}", guard.parent >= 0 ? list.names[guard.parent] : "");
  bool of_child = guard.kind == Kind::Distinct || guard.kind == Kind::AllDistinct;
  replace("{k}", of_child                        ? list.names[guard.child]
                 : guard.kind == Kind::KeyedItem ? list.names[guard.index]
                                                 : key_text(guard, guard.kind == Kind::DictItem));
  return text;
}

std::string phrase(const GuardList& list, const Guard& guard) {
  std::string what = describe(list, guard);
  switch (guard.kind) {
    case Kind::Length:
    case Kind::IteratorEnd: return what + " == " + std::to_string(guard.index);
    case Kind::IteratorMore:
    case Kind::AllDistinct:
    case Kind::Distinct: return what;
    case Kind::TensorFacts: return what + ": " + guard.facts->describe();
    case Kind::TypeVersion: return what + " and its bases are as they were";
    case Kind::DictKeys:
    case Kind::SetItems: return what + ": the same " + std::to_string(guard.items.size()) + " in the same order";
    case Kind::Setting: return what + "() == " + shown(guard.value.get());
    case Kind::SetLayout: return what + " was filled in this way";
    case Kind::Word: return what + " stands where it stood";
    default: break;
  }
  switch (guard.expect) {
    case Expect::Absent: return what + " is absent";
    case Expect::Present: return what + " is there";
    case Expect::Value: return what + " == " + shown(guard.value.get());
    case Expect::Pinned: return what + " is " + (guard.pin.get() ? shown(guard.pin.get()) : "<gone>");
    case Expect::NewNode:
      return "type(" + what + ") is " + (guard.type.pin().get() ? guard.type.type()->tp_name : "<gone>");
    case Expect::SameNode: return what + " is " + list.names[guard.child];
    default: return what + " is as it was";
  }
}

std::string explain(const GuardList& list, Py_ssize_t failed, PyObject* const* locals,
                    const std::vector<PyObject*>& slots) {
  if (failed >= static_cast<Py_ssize_t>(list.guards.size())) {
    for (const Constant& constant : list.constants) {
      if (constant.pin.get() == nullptr) {
        return "`" + spoken(list.names[constant.node]) + "`, which the region watches, is gone";
      }
    }
    return "an object that the region watches is gone, or has another class";
  }
  const Guard& guard = list.guards[failed];
  PyObject* parent = guard.parent >= 0 ? slots[guard.parent] : nullptr;
  std::string what = "`" + spoken(describe(list, guard)) + "` ";
  if (guard.key && guard.key.get() == nullptr) {
    return what + "cannot be looked at any more";
  }
  if (std::string text = explain_kind(list, guard, parent); !text.empty()) {
    return text;
  }
  bool valid = true;
  PyObject* found = fetch(guard, parent, locals, slots, &valid);
  switch (guard.expect) {
    case Expect::Absent: return what + change("absent", shown(found));
    case Expect::Present: return what + change("there", "absent");
    case Expect::Value: return what + change(shown(guard.value.get()), shown(found));
    case Expect::Pinned: return what + change(guard.pin.get() ? shown(guard.pin.get()) : "<gone>", shown(found));
    case Expect::NewNode:
      return what + "was of type " + (guard.type.pin().get() ? guard.type.type()->tp_name : "<gone>") + ", is now " +
             (found ? Py_TYPE(found)->tp_name : "absent");
    case Expect::SameNode:
      return what + "was the same object as `" + spoken(list.names[guard.child]) + "`, is now another one";
    default: return what + "changed";
  }
}

}  // namespace alternator::guard

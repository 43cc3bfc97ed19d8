#include "py/names.h"

namespace alternator::py {

Names names;

bool prepare_names() {
  bool made = true;
#define NAME(string) TEXT(string, #string)
#define TEXT(name, string) made = made && (names.name = PyUnicode_InternFromString(string)) != nullptr;
#include "py/names.def"
#undef NAME
#undef TEXT
  return made;
}

}  // namespace alternator::py

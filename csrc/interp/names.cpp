#include "interp/names.h"

namespace alternator::interp {

Names names;

bool prepare_names() {
  bool made = true;
#define NAME(string) made = made && (names.string = PyUnicode_InternFromString(#string)) != nullptr;
#include "interp/names.def"
#undef NAME
  names.empty = PyUnicode_InternFromString("");
  return made && names.empty != nullptr;
}

}  // namespace alternator::interp

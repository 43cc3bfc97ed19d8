#include "interp/names.h"

namespace alternator::interp {

Names names;

bool prepare_names() {
#define X(name)                                   \
  names.name = PyUnicode_InternFromString(#name); \
  if (names.name == nullptr) {                    \
    return false;                                 \
  }
  ALTERNATOR_NAMES(X)
#undef X
  names.empty = PyUnicode_InternFromString("");
  return names.empty != nullptr;
}

}  // namespace alternator::interp

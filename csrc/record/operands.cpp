#include "record/operands.h"

namespace alternator::record {

using py::Op;

bool asks_for_truth(Op op) {
  switch (op) {
    case Op::kUNARY_NOT:
    case Op::kPOP_JUMP_FORWARD_IF_FALSE:
    case Op::kPOP_JUMP_FORWARD_IF_TRUE:
    case Op::kPOP_JUMP_BACKWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_TRUE:
    case Op::kJUMP_IF_FALSE_OR_POP:
    case Op::kJUMP_IF_TRUE_OR_POP: return true;
    default: return false;
  }
}

int count_deciding_operands(Op op) {
  switch (op) {
    case Op::kBINARY_OP:
    case Op::kCOMPARE_OP:
    case Op::kBINARY_SUBSCR:
    case Op::kCONTAINS_OP:
    case Op::kSTORE_SUBSCR: return 2;
    case Op::kUNARY_NEGATIVE:
    case Op::kUNARY_POSITIVE:
    case Op::kUNARY_INVERT:
    case Op::kLOAD_ATTR:
    case Op::kLOAD_METHOD:
    case Op::kGET_ITER:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX: return 1;
    default: return asks_for_truth(op) ? 1 : 0;
  }
}

int count_touched(Op op, int oparg) {
  switch (op) {
    case Op::kNOP:
    case Op::kRESUME:
    case Op::kPUSH_NULL:
    case Op::kCOPY:
    case Op::kLOAD_CONST:
    case Op::kLOAD_FAST:
    case Op::kDELETE_FAST:
    case Op::kLOAD_CLOSURE:
    case Op::kMAKE_CELL:
    case Op::kCOPY_FREE_VARS:
    case Op::kLOAD_DEREF:
    case Op::kDELETE_DEREF:
    case Op::kLOAD_GLOBAL:
    case Op::kDELETE_GLOBAL:
    case Op::kJUMP_FORWARD:
    case Op::kJUMP_BACKWARD:
    case Op::kJUMP_BACKWARD_NO_INTERRUPT:
    case Op::kLOAD_ASSERTION_ERROR:
    case Op::kLOAD_BUILD_CLASS:
    case Op::kPRECALL:
    case Op::kRETURN_GENERATOR: return 0;
    case Op::kPOP_TOP:
    case Op::kSTORE_FAST:
    case Op::kSTORE_DEREF:
    case Op::kSTORE_GLOBAL:
    case Op::kLOAD_ATTR:
    case Op::kDELETE_ATTR:
    case Op::kLOAD_METHOD:
    case Op::kUNARY_POSITIVE:
    case Op::kUNARY_NEGATIVE:
    case Op::kUNARY_NOT:
    case Op::kUNARY_INVERT:
    case Op::kLIST_TO_TUPLE:
    case Op::kLIST_APPEND:
    case Op::kLIST_EXTEND:
    case Op::kSET_ADD:
    case Op::kSET_UPDATE:
    case Op::kDICT_UPDATE:
    case Op::kDICT_MERGE:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX:
    case Op::kRETURN_VALUE:
    case Op::kYIELD_VALUE:
    case Op::kGET_ITER:
    case Op::kGET_YIELD_FROM_ITER:
    case Op::kFOR_ITER:
    case Op::kPOP_JUMP_FORWARD_IF_FALSE:
    case Op::kPOP_JUMP_FORWARD_IF_TRUE:
    case Op::kPOP_JUMP_FORWARD_IF_NONE:
    case Op::kPOP_JUMP_FORWARD_IF_NOT_NONE:
    case Op::kPOP_JUMP_BACKWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_TRUE:
    case Op::kPOP_JUMP_BACKWARD_IF_NONE:
    case Op::kPOP_JUMP_BACKWARD_IF_NOT_NONE:
    case Op::kJUMP_IF_FALSE_OR_POP:
    case Op::kJUMP_IF_TRUE_OR_POP:
    case Op::kPUSH_EXC_INFO:
    case Op::kPOP_EXCEPT:
    case Op::kBEFORE_WITH:
    case Op::kGET_LEN:
    case Op::kIMPORT_FROM: return 1;
    case Op::kSTORE_ATTR:
    case Op::kBINARY_OP:
    case Op::kBINARY_SUBSCR:
    case Op::kDELETE_SUBSCR:
    case Op::kCOMPARE_OP:
    case Op::kIS_OP:
    case Op::kCONTAINS_OP:
    case Op::kMAP_ADD:
    case Op::kCHECK_EXC_MATCH:
    case Op::kSEND:
    case Op::kFORMAT_VALUE:
    case Op::kIMPORT_NAME: return 2;
    case Op::kSTORE_SUBSCR: return 3;
    case Op::kSWAP:
    case Op::kBUILD_TUPLE:
    case Op::kBUILD_LIST:
    case Op::kBUILD_SET:
    case Op::kBUILD_STRING:
    case Op::kBUILD_SLICE: return oparg;
    case Op::kBUILD_MAP: return 2 * oparg;
    case Op::kBUILD_CONST_KEY_MAP: return oparg + 1;
    case Op::kCALL:
    case Op::kKW_NAMES: return oparg + 2;
    default: return 5;  // no instruction takes more
  }
}

bool is_stored(Op op, int depth) {
  switch (op) {
    case Op::kSTORE_SUBSCR: return depth == 3;
    case Op::kBUILD_MAP: return depth % 2 == 1;
    case Op::kBUILD_CONST_KEY_MAP: return depth > 1;
    case Op::kMAP_ADD: return depth == 1;
    default: return false;
  }
}

bool looks_into(Op op, int depth) {
  switch (op) {
    case Op::kCOMPARE_OP:
    case Op::kCONTAINS_OP:
    case Op::kFORMAT_VALUE:
    case Op::kBUILD_SET:
    case Op::kSET_ADD:
    case Op::kSET_UPDATE:
    case Op::kBINARY_OP: return true;
    case Op::kBINARY_SUBSCR:
    case Op::kSTORE_SUBSCR:
    case Op::kDELETE_SUBSCR: return depth == 1;  // the key
    case Op::kMAP_ADD: return depth == 2;
    case Op::kBUILD_MAP: return depth % 2 == 0;
    default: return false;
  }
}

bool only_moves(Op op) {
  switch (op) {
    case Op::kPOP_TOP:
    case Op::kSWAP:
    case Op::kCOPY:
    case Op::kSTORE_FAST:
    case Op::kSTORE_DEREF:
    case Op::kSTORE_GLOBAL:
    case Op::kSTORE_ATTR:
    case Op::kBUILD_TUPLE:
    case Op::kBUILD_LIST:
    case Op::kBUILD_SLICE:
    case Op::kLIST_APPEND:
    case Op::kRETURN_VALUE:
    case Op::kYIELD_VALUE:
    case Op::kLIST_TO_TUPLE:
    case Op::kCALL:
    case Op::kKW_NAMES:
    case Op::kCALL_FUNCTION_EX: return true;
    default: return false;
  }
}

}  // namespace alternator::record

// Objects that run code when they die (py/finaliser.h), and that die if the frames let go which a trace began in. While the
// trace lasts nothing from outside dies: its start keeps all of it. So the end of such an object is told by counting.
//
//   owned      what only the frames hold, or only objects that are owned: every reference to it is accounted for
//   watched    what is owned and runs code, and what is owned and leads there
//   dead       what has no references but ours and those of dead objects
#pragma once

#include <vector>

#include "interp/observer.h"
#include "journal/journal.h"
#include "record/read_graph.h"
#include "record/start.h"

namespace alternator::record {

class DropWatch {
 public:
  // The frames of the trace are in place, and no instruction has run.
  void begin(const Start& start, const ReadGraph& graph, const journal::Journal& journal);
  bool is_idle() const { return watched_.empty(); }
  // An object that runs code, and that the program has no reference to any more; null if there is none.
  PyObject* find_dropped(const interp::Position& position, const ReadGraph& graph, const journal::Journal& journal);

 private:
  struct Watched {
    PyObject* object;               // the start keeps it
    Py_ssize_t ours;                // references of ours, but for those of the graph and the journal
    std::vector<size_t> holders{};  // owned objects with a reference to it, each before it in the list; once for each
    bool runs_code = false;
    bool is_dead = false;
  };
  bool is_dead(const Watched& one, const interp::Position& position, const ReadGraph& graph,
               const journal::Journal& journal) const;

  std::vector<Watched> watched_;
};

// Whether a value that is replaced or deleted runs code then. Its place holds it.
bool minds_being_replaced(PyObject* value, const ReadGraph& graph);

}  // namespace alternator::record

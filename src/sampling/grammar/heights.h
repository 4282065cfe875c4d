// Heights: from which states of an automaton an end can be reached, and how deep that nests.
//
// Called once by AutomatonBuilder::build(). Thread-safety: a free function.
#pragma once

#include "sampling/grammar/automaton.h"

namespace colibri::sampling::grammar {

/// Fills the heights of all states. kUsage when the root's start has none within kMaxNesting, or when a state leads to
/// more than kMaxConfigs places before the next byte. Takes O(states + edges) time.
Status measure(Automaton& automaton);

}  // namespace colibri::sampling::grammar

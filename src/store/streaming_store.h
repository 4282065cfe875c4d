// The store of a model that does not fit: some experts stay in slots, the others are read when they are wanted.
//
// An expert is in one of three places, and only the engine's thread moves it:
//
//     absent --(wanted or guessed: a slot is found, its old expert becomes absent)--> loading
//     loading --(its last piece is packed, seen in collect)--> resident
//     loading --(a read failed, seen in collect)--> absent, the slot is free
//     resident --(somebody needs its slot and it is not pinned)--> absent
//
// The memory of a slot is written only while its expert is loading, and handed out only while it is resident and
// pinned. Readers never see this state: they get a load and give it back (see expert_readers.h). So a lease cannot name
// an expert that is half read, or whose slot was given away.
//
// A lease that wants more experts than there are slots gets them in waves: what was handed out is given up by the next
// call of next(), and its slots take the rest.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"
#include "store/cache_policy.h"
#include "store/expert_readers.h"
#include "store/expert_store.h"
#include "store/slot_plan.h"

namespace colibri::store {

struct StreamingOptions {
  PolicyKind policy = PolicyKind::kAuto;
  int64_t lfu_threshold = 100;
  SlotPlan slots;
  int64_t least_slots = 1;  ///< of each class, which give_back() leaves
  ReaderOptions readers;
  std::chrono::milliseconds read_timeout{30000};  ///< a wanted expert's reading makes no progress for so long: an error
  double probe_bytes_per_second = 0;              ///< for the statistics
  std::vector<float> heat;                        ///< of an earlier run, [n_layers, n_experts]; empty: none
};

/// `experts` [n_layers, n_experts] and the catalog they point into must outlive the store. `memory`: 64-byte aligned,
/// options.slots.bytes().
Result<std::unique_ptr<ExpertStore>> make_streaming_store(std::span<const ExpertSource> experts, int n_layers,
                                                          int n_experts, std::span<std::byte> memory,
                                                          std::unique_ptr<ByteSource> source, StreamingOptions options);

}  // namespace colibri::store

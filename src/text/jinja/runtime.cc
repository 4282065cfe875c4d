#include "text/jinja/runtime.h"

#include <algorithm>
#include <numeric>

#include "text/jinja/ops.h"

namespace colibri::text::jinja {

Error Runtime::fail(Pieces message) const {
  return {ErrorCode::kFailed, concat({"template ", name_, ", line ", std::to_string(line), ": ", concat(message)})};
}

Error Runtime::out_of_bounds() const {
  if (heap.exhausted()) {
    return fail({"its values need more than the ", std::to_string(options.max_value_bytes), " bytes allowed"});
  }
  return fail({"it takes more than the ", std::to_string(options.max_steps), " steps allowed"});
}

const List* ListBuilder::finish() {
  if (!heap_.fits(items_.size() * sizeof(Value))) {
    heap_.exhaust();
    items_.clear();
  }
  Value* items = heap_.make_array<Value>(items_.size());
  std::copy(items_.begin(), items_.end(), items);
  return heap_.make<List>(items, static_cast<uint32_t>(items_.size()));
}

void DictBuilder::set(const Value& key, const Value& value) {
  if (heap_.fits((entries_.size() + 1) * (sizeof(DictEntry) + sizeof(uint32_t)))) {
    entries_.push_back({key, value});
  } else {
    heap_.exhaust();
  }
}

const Dict* DictBuilder::finish() {
  std::vector<uint32_t> sorted(entries_.size());
  std::iota(sorted.begin(), sorted.end(), 0U);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [this](uint32_t a, uint32_t b) { return dict_order(entries_[a].key, entries_[b].key) < 0; });
  // Of a run of equal keys the first keeps key and place, the last gives the value.
  std::vector<bool> dropped(entries_.size(), false);
  for (size_t i = 1, first = 0; i < sorted.size(); ++i) {
    if (dict_order(entries_[sorted[first]].key, entries_[sorted[i]].key) == 0) {
      entries_[sorted[first]].value = entries_[sorted[i]].value;
      dropped[sorted[i]] = true;
    } else {
      first = i;
    }
  }
  std::vector<uint32_t> place(entries_.size());
  uint32_t size = 0;
  for (size_t i = 0; i < entries_.size(); ++i) place[i] = dropped[i] ? size : size++;

  auto* entries = heap_.make_array<DictEntry>(size);
  auto* order = heap_.make_array<uint32_t>(size);
  uint32_t next = 0;
  for (const uint32_t i : sorted) {
    if (dropped[i]) continue;
    entries[place[i]] = entries_[i];
    order[next++] = place[i];
  }
  return heap_.make<Dict>(entries, order, size);
}

}  // namespace colibri::text::jinja

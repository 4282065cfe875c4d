// LoopState: the `loop` of a for statement, and the walk over its items.
//
// Items are pulled one by one, as jinja does it: the test of `for x in xs if test` runs when its item is reached, or
// when the template asks about what comes next (loop.last, loop.nextitem, loop.length). Thread-safety: one thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

struct ForStmt;

/// Decides which items a loop takes.
struct ItemFilter {
  virtual Result<bool> accepts(const Value& item) = 0;

 protected:
  ~ItemFilter() = default;
};

class LoopState {
 public:
  /// `filter`, if not null, lives as long as this. `has_length`: the items were not a generator's.
  LoopState(Iterator* items, ItemFilter* filter, bool has_length, int depth0)
      : items_(items), filter_(filter), depth0_(depth0) {
    if (has_length && filter == nullptr) length_ = items->items.size;
  }

  /// The next item, which becomes the current one; missing at the end.
  Result<Value> advance(Runtime& rt);
  /// loop.NAME; missing when there is no such thing.
  Result<Value> attribute(Runtime& rt, std::string_view name);
  Result<Value> cycle(Runtime& rt, std::span<const Value> values) const;
  Result<Value> changed(Runtime& rt, std::span<const Value> values);
  std::string repr() const;

  int depth0() const { return depth0_; }

  /// What loop(...) runs again; null when the loop is not recursive.
  const ForStmt* statement = nullptr;
  Frame* closure = nullptr;

 private:
  Result<Value> pull(Runtime& rt);
  Result<Value> peek(Runtime& rt);
  Result<int64_t> length(Runtime& rt);

  Iterator* items_;
  ItemFilter* filter_;
  int depth0_;
  int64_t index0_ = -1;
  int64_t length_ = -1;  // -1: not known yet
  Value current_, before_, after_;
  const List* last_changed_ = nullptr;
};

}  // namespace colibri::text::jinja

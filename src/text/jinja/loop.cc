#include "text/jinja/loop.h"

#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/ops.h"

namespace colibri::text::jinja {

Result<Value> LoopState::pull(Runtime& rt) {
  while (items_->next < items_->items.size) {
    COLIBRI_TRY(rt.step());
    const Value item = items_->items.items[items_->next++];
    if (filter_ == nullptr) return item;
    COLIBRI_ASSIGN(const bool accepted, filter_->accepts(item));
    if (accepted) return item;
  }
  return Value();
}

Result<Value> LoopState::peek(Runtime& rt) {
  if (after_.is_missing()) {
    COLIBRI_ASSIGN(after_, pull(rt));
  }
  return after_;
}

Result<Value> LoopState::advance(Runtime& rt) {
  Value next = std::exchange(after_, Value());
  if (next.is_missing()) {
    COLIBRI_ASSIGN(next, pull(rt));
  }
  if (next.is_missing()) return next;
  ++index0_;
  before_ = current_;
  current_ = next;
  return next;
}

Result<int64_t> LoopState::length(Runtime& rt) {
  if (length_ >= 0) return length_;
  ListBuilder rest(rt.heap);
  while (true) {
    COLIBRI_ASSIGN(const Value item, pull(rt));
    if (item.is_missing()) break;
    rest.push(item);
  }
  length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (after_.is_missing() ? 0 : 1);
  items_ = rt.heap.make<Iterator>(*rest.finish(), 0U);
  filter_ = nullptr;
  return length_;
}

Result<Value> LoopState::attribute(Runtime& rt, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem") return index0_ == 0 ? Value::undefined("there is no previous item") : before_;
  if (name == "last" || name == "nextitem") {
    COLIBRI_ASSIGN(const Value next, peek(rt));
    if (name == "last") return Value::boolean(next.is_missing());
    return next.is_missing() ? Value::undefined("there is no next item") : next;
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    COLIBRI_ASSIGN(const int64_t size, length(rt));
    return Value::integer(name == "length" ? size : name == "revindex" ? size - index0_ : size - index0_ - 1);
  }
  return Value();
}

Result<Value> LoopState::cycle(Runtime& rt, std::span<const Value> values) const {
  if (values.empty()) return rt.fail("loop.cycle without values");
  return values[static_cast<size_t>(index0_) % values.size()];
}

Result<Value> LoopState::changed(Runtime& rt, std::span<const Value> values) {
  ListBuilder builder(rt.heap);
  for (const Value& value : values) builder.push(value);
  const List* now = builder.finish();
  if (last_changed_ != nullptr) {
    COLIBRI_ASSIGN(const bool same, equals(rt, Value::list(last_changed_), Value::list(now)));
    if (same) return Value::boolean(false);
  }
  last_changed_ = now;
  return Value::boolean(true);
}

std::string LoopState::repr() const {
  const int64_t size = length_ >= 0 ? length_ : index0_ + 1;
  return concat({"<LoopContext ", std::to_string(index0_ + 1), "/", std::to_string(size), ">"});
}

}  // namespace colibri::text::jinja

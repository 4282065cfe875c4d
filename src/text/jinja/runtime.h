// Runtime: what every part of a running template shares: the heap, the bounds, the clock, and how errors are made.
//
// The interpreter owns it and keeps `line` current; filters, tests, methods and operators get it by reference.
// Thread-safety: one thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_template_options.h"
#include "text/jinja/pieces.h"
#include "text/jinja/value.h"

namespace colibri::text::jinja {

/// Data nested deeper than this (a list in a list in a list ...) is neither printed nor compared.
constexpr int kMaxDataDepth = 200;

class Runtime {
 public:
  Runtime(std::string_view template_name, const RenderOptions& render_options)
      : heap(render_options.max_value_bytes), options(render_options), name_(template_name) {}

  Heap heap;
  const RenderOptions& options;
  int line = 0;  ///< of the expression or statement that is being evaluated

  /// kFailed: "template NAME, line N: MESSAGE".
  Error fail(Pieces message) const;
  Error fail(std::string_view message) const { return fail({message}); }

  /// Counts `n` steps; an error when the steps or the heap are used up.
  Status step(int64_t n = 1) {
    steps_ += n;
    if (steps_ > options.max_steps || heap.exhausted()) return out_of_bounds();
    return {};
  }
  /// Steps for work on `bytes` bytes or `items` items inside one builtin.
  Status step_bytes(uint64_t bytes) { return step(static_cast<int64_t>(bytes / 64)); }
  Status step_items(uint64_t items) { return step(static_cast<int64_t>(items / 16)); }

 private:
  Error out_of_bounds() const;

  std::string_view name_;
  int64_t steps_ = 0;
};

/// Text made piece by piece, within the heap's budget (what does not fit exhausts the heap and is dropped).
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}

  void append(std::string_view text) {
    if (reserve(text.size())) text_.append(text);
  }
  void append(uint64_t count, std::string_view text) {
    if (text.empty() || count > UINT32_MAX || !reserve(count * text.size())) return over(count * text.size());
    for (uint64_t i = 0; i < count; ++i) text_.append(text);
  }
  std::string_view text() const { return text_; }
  std::string_view finish() { return heap_.copy(text_); }
  Value finish_string(bool markup = false) { return Value::string(finish(), markup); }

 private:
  bool reserve(uint64_t more) {
    if (heap_.fits(text_.size() + more) && text_.size() + more <= UINT32_MAX) return true;
    heap_.exhaust();
    return false;
  }
  void over(uint64_t bytes) {
    if (bytes > 0) heap_.exhaust();
  }

  Heap& heap_;
  std::string text_;
};

/// A list made item by item, within the heap's budget.
class ListBuilder {
 public:
  explicit ListBuilder(Heap& heap) : heap_(heap) {}

  void push(const Value& value) {
    if (heap_.fits((items_.size() + 1) * sizeof(Value))) {
      items_.push_back(value);
    } else {
      heap_.exhaust();
    }
  }
  size_t size() const { return items_.size(); }
  std::vector<Value>& items() { return items_; }
  const List* finish();
  Value finish_list() { return Value::list(finish()); }
  Value finish_tuple() { return Value::tuple(finish()); }
  /// A generator over the items.
  Value finish_iterator() { return Value::iterator(heap_.make<Iterator>(*finish(), 0U)); }

 private:
  Heap& heap_;
  std::vector<Value> items_;
};

/// A dict made entry by entry. A key that comes again keeps its place and gets the new value, as in Python.
class DictBuilder {
 public:
  explicit DictBuilder(Heap& heap) : heap_(heap) {}
  void set(const Value& key, const Value& value);  ///< REQUIRES: key is hashable (ops.h)
  const Dict* finish();
  Value finish_dict() { return Value::dict(finish()); }

 private:
  Heap& heap_;
  std::vector<DictEntry> entries_;
};

}  // namespace colibri::text::jinja

// Value: what a template computes with, after Python's types.
//
// A Value is 16 bytes and copied freely; text and objects belong to a Heap (or to the context that is rendered) and
// outlive every Value that names them. Objects are immutable except namespaces, iterators, cyclers, joiners and loops.
// Thread-safety: one thread, except constants, which nobody changes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/heap.h"

namespace colibri::text::jinja {

enum class Kind : uint8_t {
  kMissing,    ///< no value at all: an unset slot, an argument that was not given; templates never see it
  kUndefined,  ///< jinja's Undefined: falsy, prints nothing, most uses are errors; the text says what is not defined
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,  ///< UTF-8; `markup` when it came from `safe` or `escape`
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
  kCycler,
  kJoiner,
};

class Value;
struct Builtin;
struct MacroDef;
struct Frame;
class LoopState;

struct List {
  const Value* items;
  uint32_t size;
  bool is_group = false;  ///< a pair made by groupby, which also answers to .grouper and .list
};

struct DictEntry;
/// Entries in the order of insertion; `sorted` is the order by key (dict_order in ops.h) in which a lookup searches.
struct Dict {
  const DictEntry* entries;
  const uint32_t* sorted;
  uint32_t size;
};

struct DictView {
  enum class Part : uint8_t { kKeys, kValues, kItems };
  const Dict* dict;
  Part part;
};

/// Python's range; `count` numbers.
struct Range {
  int64_t start;
  int64_t stop;
  int64_t step;
  int64_t count;
};

/// What Python's generators are to a template: something that can be walked through once.
struct Iterator {
  List items;
  uint32_t next;
};

struct Namespace {
  DictEntry* entries;
  uint32_t size;
  uint32_t capacity;
};

/// A macro, or the body of a call block, with the frame that it was defined in.
struct Macro {
  const MacroDef* def;
  Frame* closure;
};

struct Method;

struct Cycler {
  List items;
  uint32_t next;
};

struct Joiner {
  std::string_view separator;
  bool used;
};

class Value {
 public:
  Value() = default;  // missing

  static Value undefined(std::string_view what) { return text_of(Kind::kUndefined, what); }
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) { return integral(Kind::kBool, b ? 1 : 0); }
  static Value integer(int64_t i) { return integral(Kind::kInt, i); }
  static Value real(double d) {
    Value value(Kind::kFloat);
    value.payload_.real = d;
    return value;
  }
  static Value string(std::string_view text, bool markup = false) {
    Value value = text_of(Kind::kString, text);
    value.markup_ = markup;
    return value;
  }
  static Value list(const List* list) { return object(Kind::kList, list); }
  static Value tuple(const List* list) { return object(Kind::kTuple, list); }
  static Value dict(const Dict* dict) { return object(Kind::kDict, dict); }
  static Value dict_view(const DictView* view) { return object(Kind::kDictView, view); }
  static Value range(const Range* range) { return object(Kind::kRange, range); }
  static Value iterator(Iterator* iterator) { return object(Kind::kIterator, iterator); }
  static Value name_space(Namespace* space) { return object(Kind::kNamespace, space); }
  static Value macro(const Macro* macro) { return object(Kind::kMacro, macro); }
  static Value function(const Builtin* builtin) { return object(Kind::kFunction, builtin); }
  static Value method(const Method* method) { return object(Kind::kMethod, method); }
  static Value loop(LoopState* loop) { return object(Kind::kLoop, loop); }
  static Value cycler(Cycler* cycler) { return object(Kind::kCycler, cycler); }
  static Value joiner(Joiner* joiner) { return object(Kind::kJoiner, joiner); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return is(Kind::kMissing); }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_markup() const { return is_string() && markup_; }
  bool is_integral() const { return is(Kind::kInt) || is(Kind::kBool); }  ///< Python's bool is an int
  bool is_number() const { return is_integral() || is(Kind::kFloat); }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }

  /// REQUIRES, here and below: the kind is one that has what is asked for.
  bool as_bool() const { return payload_.integer != 0; }
  int64_t as_int() const { return payload_.integer; }
  double as_double() const { return is(Kind::kFloat) ? payload_.real : static_cast<double>(payload_.integer); }
  std::string_view as_string() const { return {payload_.text, size_}; }  ///< of an undefined: what is not defined
  const List& as_list() const { return *static_cast<const List*>(payload_.object); }
  std::span<const Value> items() const { return {as_list().items, as_list().size}; }
  const Dict& as_dict() const { return *static_cast<const Dict*>(payload_.object); }
  const DictView& as_dict_view() const { return *static_cast<const DictView*>(payload_.object); }
  const Range& as_range() const { return *static_cast<const Range*>(payload_.object); }
  Iterator& as_iterator() const { return *static_cast<Iterator*>(payload_.object); }
  Namespace& as_namespace() const { return *static_cast<Namespace*>(payload_.object); }
  const Macro& as_macro() const { return *static_cast<const Macro*>(payload_.object); }
  const Builtin& as_function() const { return *static_cast<const Builtin*>(payload_.object); }
  const Method& as_method() const { return *static_cast<const Method*>(payload_.object); }
  LoopState& as_loop() const { return *static_cast<LoopState*>(payload_.object); }
  Cycler& as_cycler() const { return *static_cast<Cycler*>(payload_.object); }
  Joiner& as_joiner() const { return *static_cast<Joiner*>(payload_.object); }
  const void* identity() const { return payload_.object; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  static Value integral(Kind kind, int64_t i) {
    Value value(kind);
    value.payload_.integer = i;
    return value;
  }
  static Value text_of(Kind kind, std::string_view text) {
    Value value(kind);
    value.size_ = static_cast<uint32_t>(text.size());
    value.payload_.text = text.data();
    return value;
  }
  template <typename T>
  static Value object(Kind kind, T* object) {
    Value value(kind);
    value.payload_.object = const_cast<void*>(static_cast<const void*>(object));
    return value;
  }

  Kind kind_ = Kind::kMissing;
  bool markup_ = false;
  uint32_t size_ = 0;
  union Payload {
    int64_t integer = 0;
    double real;
    const char* text;
    void* object;  // immutable kinds were made from a const pointer and are only read through one
  };
  Payload payload_;
};
static_assert(sizeof(Value) == 16);

struct DictEntry {
  Value key;
  Value value;
};

/// A method that was looked up on an object: "a".upper.
struct Method {
  Value self;
  const Builtin* builtin;
};

/// Python's name of the value's type, for messages.
std::string_view type_name(const Value& value);

}  // namespace colibri::text::jinja

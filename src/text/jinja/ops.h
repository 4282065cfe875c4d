// Operators: what Python's operators, indexing and attribute access do to values.
//
// Mistakes of the template (types that do not fit, 1 // 0, an attribute of something undefined) are errors made by
// `rt`. Thread-safety: one render, one thread.
#pragma once

#include <span>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

bool is_true(const Value& value);
Result<bool> equals(Runtime& rt, const Value& a, const Value& b, int depth = 0);
/// a OP b for every comparison, `in` and `not in` included.
Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b, int depth = 0);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);

Result<Value> apply_unary(Runtime& rt, UnaryOp op, const Value& operand);
Result<Value> apply_binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b);

/// object.name, by the rules of jinja's sandbox: a method or attribute, else an item, else undefined.
Result<Value> get_attr(Runtime& rt, const Value& object, std::string_view name);
/// object[index]: an item, else an attribute, else undefined.
Result<Value> get_item(Runtime& rt, const Value& object, const Value& index);
/// object[start:stop:step]; missing or None: not given.
Result<Value> get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);

/// Python's len().
Result<int64_t> length(Runtime& rt, const Value& value);
bool is_iterable(const Value& value);
/// The items that iterating over `value` gives; an iterator is used up by that.
Result<const List*> items_of(Runtime& rt, const Value& value);
Value range_item(const Range& range, int64_t index);

/// Dict keys: whether a value can be one (not too large a tuple, too), their order, and the lookup (null when there is
/// no such key; dict_find wants a hashable one).
bool is_hashable(const Value& value);
int dict_order(const Value& a, const Value& b);
const Value* dict_find(const Dict& dict, const Value& key);
Result<const Value*> dict_get(Runtime& rt, const Dict& dict, const Value& key);
const Value* namespace_find(const Namespace& space, std::string_view name);
/// Adds or replaces an attribute.
void namespace_set(Runtime& rt, Namespace& space, std::string_view name, const Value& value);

/// An error for using what is undefined; a type error.
Error undefined_error(const Runtime& rt, const Value& undefined);
Error unsupported(const Runtime& rt, std::string_view what, const Value& value);

}  // namespace colibri::text::jinja

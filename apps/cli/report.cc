#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/progress.h"

namespace colibri::cli {
namespace {

constexpr int kIndent = 2;
constexpr int kMaxDepth = 16;  // deeper values are printed as JSON

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// Text characters as they wide, bytes of a UTF-8 character after its first not counted.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Control characters of a hostile model file must not reach the terminal.
std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    safe += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return safe;
}

// Our own keys are words joined by underscores; others ("Q8_0", a tensor's name) are data.
bool is_words(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) { return c == '_' || (c >= 'a' && c <= 'z'); });
}

std::string label(std::string_view key) {
  std::string text = printable(key);
  if (!is_words(key)) return text;
  if (text.ends_with("_bytes")) text.resize(text.size() - 6);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// Four digits say enough.
std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), std::abs(number) >= 1000 && std::abs(number) < 1e15 ? "%.0f" : "%.4g", number);
  return text;
}

bool is_bytes(std::string_view key) { return key == "bytes" || key.ends_with("_bytes"); }

std::string scalar(std::string_view key, const json::value& value) {
  if (value.is_string()) return printable(view(value.get_string()));
  if (is_bytes(key) && value.is_number())
    return human_bytes(static_cast<uint64_t>(std::max(0.0, value.to_number<double>())));
  if (value.is_bool()) return value.get_bool() ? "yes" : "no";
  if (value.is_null()) return "-";
  if (value.is_double()) return short_number(value.get_double());
  return dump_json(value);
}

bool is_flat(const json::value& value) {
  if (value.is_object()) return false;
  if (!value.is_array()) return true;
  const json::array& array = value.get_array();
  return std::none_of(array.begin(), array.end(), [](const json::value& v) { return v.is_structured(); });
}

std::string flat(std::string_view key, const json::value& value) {
  if (!value.is_array()) return scalar(key, value);
  std::string text;
  for (const json::value& element : value.get_array()) text += (text.empty() ? "" : ", ") + scalar(key, element);
  return text.empty() ? "none" : text;
}

bool is_flat_object(const json::value& value) {
  if (!value.is_object()) return false;
  const json::object& object = value.get_object();
  return std::all_of(object.begin(), object.end(), [](const auto& member) { return is_flat(member.value()); });
}

std::string blanks(int n) { return std::string(static_cast<size_t>(n), ' '); }

void append(std::string& out, const json::value& value, int indent, int depth);

void append_object(std::string& out, const json::object& object, int indent, int depth) {
  size_t width = 0;
  for (const auto& member : object) {
    if (is_flat(member.value())) width = std::max(width, label(member.key()).size());
  }
  for (const auto& member : object) {
    std::string name = label(member.key());
    if (!is_flat(member.value())) {
      out += blanks(indent) + name + "\n";
      append(out, member.value(), indent + kIndent, depth + 1);
      continue;
    }
    name.resize(width, ' ');
    out += blanks(indent) + name + "  " + flat(member.key(), member.value()) + "\n";
  }
}

void append_table(std::string& out, const json::array& array, int indent) {
  std::vector<std::string> keys;
  for (const json::value& row : array) {
    for (const auto& member : row.get_object()) {
      if (std::find(keys.begin(), keys.end(), member.key()) == keys.end()) keys.emplace_back(member.key());
    }
  }
  std::vector<std::vector<std::string>> rows(1);
  for (const std::string& key : keys) rows[0].push_back(label(key));
  for (const json::value& row : array) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const std::string& key : keys) {
      const json::value* cell = row.get_object().if_contains(key);
      cells.push_back(cell ? flat(key, *cell) : "");
    }
  }
  out += render_table(rows, indent);
}

void append_array(std::string& out, const json::array& array, int indent, int depth) {
  if (std::all_of(array.begin(), array.end(), is_flat_object)) return append_table(out, array, indent);
  for (const json::value& element : array) append(out, element, indent, depth + 1);
}

void append(std::string& out, const json::value& value, int indent, int depth) {
  if (depth > kMaxDepth || is_flat(value)) {
    out += blanks(indent) + (is_flat(value) ? flat("", value) : dump_json(value)) + "\n";
  } else if (value.is_object()) {
    append_object(out, value.get_object(), indent, depth);
  } else {
    append_array(out, value.get_array(), indent, depth);
  }
}

}  // namespace

std::string render_table(const std::vector<std::vector<std::string>>& rows, int indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = blanks(indent);
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string render_report(const json::value& report) {
  std::string out;
  append(out, report, 0, 0);
  return out;
}

}  // namespace colibri::cli

#include "log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "common/json.h"

namespace colibri::server {
namespace {

constexpr const char* kLevels[] = {"error", "warn", "info", "debug"};
constexpr size_t kMaxQueuedLines = 4096;
constexpr size_t kMaxMessageBytes = 8192;

std::string_view name_of(LogLevel level) { return kLevels[static_cast<int>(level)]; }

std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(ms));
  return text;
}

// A JSON string, in ASCII: a terminal shows it as it is, and no byte ends the line.
std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxMessageBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (byte < 32 || byte >= 127) {
      out.append("\\u00").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// As it is where no reader could take it for something else.
std::string plain_or_quoted(std::string_view text) {
  const bool plain = !text.empty() && text.size() <= kMaxMessageBytes &&
                     std::all_of(text.begin(), text.end(),
                                 [](char c) { return c > ' ' && c < 127 && c != '"' && c != '\\' && c != '='; });
  return plain ? std::string(text) : quoted(text);
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMaxMessageBytes))
    line += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
  return line;
}

// Writes a record's fields one by one in either form.
class Fields {
 public:
  explicit Fields(bool as_json) : as_json_(as_json) {}
  Fields& text(const char* name, std::string_view value) {
    return raw(name, as_json_ ? quoted(value) : plain_or_quoted(value));
  }
  Fields& number(const char* name, int64_t value) { return raw(name, std::to_string(value)); }
  Fields& seconds(const char* name, double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.6f", value);
    return raw(name, text);
  }
  Fields& raw(const char* name, const std::string& value) {
    if (as_json_) {
      out_.append(out_.empty() ? "\"" : ", \"").append(name).append("\": ").append(value);
    } else {
      out_.append(out_.empty() ? "" : " ").append(name).append("=").append(value);
    }
    return *this;
  }
  const std::string& get() const { return out_; }

 private:
  const bool as_json_;
  std::string out_;
};

std::string prefix(std::string_view time, LogLevel level) {
  return std::string(time).append(" ").append(name_of(level)).append(" ");
}

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return;  // nobody reads it; the server goes on
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

LogLevel log_level_of(std::string_view name) {
  const auto* found = std::find(std::begin(kLevels), std::end(kLevels), name);
  return found == std::end(kLevels) ? LogLevel::kInfo : static_cast<LogLevel>(found - std::begin(kLevels));
}

std::string format_line(bool as_json, std::string_view time, LogLevel level, std::string_view message) {
  if (!as_json) return prefix(time, level) + one_line(message);
  Fields fields(true);
  fields.text("time", time).text("level", name_of(level)).text("message", message);
  return "{" + fields.get() + "}";
}

std::string format_request(bool as_json, std::string_view time, const RequestRecord& record) {
  Fields fields(as_json);
  if (as_json) fields.text("time", time).text("level", "info").text("message", "request");
  fields.text("id", record.id).text("client", record.client).text("method", record.method).text("path", record.path);
  fields.number("status", record.status).text("end", record.end);
  fields.number("bytes_in", static_cast<int64_t>(record.bytes_in));
  fields.number("bytes_out", static_cast<int64_t>(record.bytes_out)).seconds("seconds", record.seconds);
  if (record.prompt_tokens >= 0) {
    fields.number("prompt_tokens", record.prompt_tokens).number("cached_tokens", record.cached_tokens);
    fields.number("generated_tokens", record.generated_tokens);
  }
  return as_json ? "{" + fields.get() + "}" : prefix(time, LogLevel::kInfo) + "request " + fields.get();
}

Log::Log(int descriptor, bool as_json) : descriptor_(descriptor), as_json_(as_json), writer_(&Log::write_lines, this) {}

Log::~Log() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  writer_.join();
}

void Log::line(LogLevel level, std::string_view message) {
  if (shows(level)) queue(format_line(as_json_, now_text(), level, message));
}

void Log::request(const RequestRecord& record) {
  if (shows(LogLevel::kInfo)) queue(format_request(as_json_, now_text(), record));
}

void Log::queue(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxQueuedLines) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(line += '\n'));
  }
  changed_.notify_one();
}

void Log::write_lines() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::string text;
    for (; !lines_.empty() && text.size() < (1 << 16); lines_.pop_front()) text += lines_.front();
    if (dropped_ > 0) {
      const std::string lost = std::to_string(dropped_) + " log lines were dropped: nobody read them in time";
      text += format_line(as_json_, now_text(), LogLevel::kWarn, lost) + '\n';
      dropped_ = 0;
    }
    lock.unlock();
    write_all(descriptor_, text);
    lock.lock();
  }
}

}  // namespace colibri::server

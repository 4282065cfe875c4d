// What the routes know of HTTP: a whole request, and somebody to answer. No network code.
//
// The server (http_server.h) reads and checks the request, then calls the handler on the connection's strand. A handler
// returns at once; it answers then or later, from that strand: what happens on other threads (a sequence's notify)
// comes back to it through Responder::post. Ownership: whoever will still answer holds the Responder. Invariant:
// exactly one of respond() and begin_stream() ... end_stream(), unless the client goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  ///< "POST"
  std::string path;    ///< "/v1/models", decoded, without the query
  std::string query;   ///< what stands behind the ?, as it came
  Headers headers;     ///< names in lower case
  std::string body;
  std::string id;      ///< the client's x-request-id where it is a good one, else our own
  std::string client;  ///< whose request it is: the name of its API key, else its address

  /// The header's value, or empty. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;  ///< besides the usual ones
};

class Responder {
 public:
  virtual ~Responder() = default;

  virtual void respond(HttpResponse response) = 0;

  /// 200 with server-sent events; the head is sent at once.
  virtual void begin_stream() = 0;
  /// Queues one whole frame ("data: ...\n\n", ": keep-alive\n\n"); never blocks.
  virtual void write(std::string frame) = 0;
  virtual void end_stream() = 0;
  /// What was written and has not been taken by the client. A handler that sees more than it likes stops reading its
  /// sequence until on_drained is called.
  virtual size_t queued_bytes() const = 0;
  /// The same of all answers of the server together.
  virtual size_t all_queued_bytes() const { return queued_bytes(); }
  /// Called on the strand whenever the queue has become empty.
  virtual void on_drained(std::function<void()> call) = 0;
  /// Called on the strand, once, when the client has gone (or reads too slowly for too long); nothing needs to be
  /// answered then, and calls do nothing.
  virtual void on_gone(std::function<void()> call) = 0;

  /// Called on the strand, once, when the server ends before the answer has: the handler ends it with an error of its
  /// route's shape, soon. Without such a call the server does it in OpenAI's shape.
  virtual void on_shutdown(std::function<void()> /*call*/) {}
  /// For the log line of the request. The last call counts.
  virtual void count_tokens(int64_t /*prompt*/, int64_t /*cached*/, int64_t /*generated*/) {}

  /// Runs `call` on the connection's strand, after `delay_ms`. From any thread.
  virtual void post(std::function<void()> call) = 0;
  virtual void post_later(int delay_ms, std::function<void()> call) = 0;
};

using Handler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

}  // namespace colibri::server

// HttpConnection: one connection of a client from its first byte to its last, and Exchange, a handler's end of it.
//
// Private to connection.cc (reading: heads, bodies, what is refused) and connection_answer.cc (answering, writing).
// Everything runs on the connection's strand; the atomics are what other threads may look at. States: kIdle, kHead,
// kBody, kAnswering, then kIdle again, or kLingering and kClosed.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "connection.h"

namespace colibri::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using std::chrono::milliseconds;

inline ApiError connection_fault(int status, std::string message, std::string code) {
  return {status, std::move(message), std::move(code), {}, {}, status == 503 ? 1 : 0};
}

class HttpConnection;

// A handler's end of one exchange. Does nothing once the exchange is over.
class Exchange : public Responder, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpConnection> connection, uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  ~Exchange() override;
  void respond(HttpResponse response) override;
  void begin_stream() override;
  void write(std::string frame) override;
  void end_stream() override;
  size_t queued_bytes() const override;
  size_t all_queued_bytes() const override;
  void on_drained(std::function<void()> call) override;
  void on_gone(std::function<void()> call) override;
  void on_shutdown(std::function<void()> call) override;
  void count_tokens(int64_t prompt, int64_t cached, int64_t generated) override;
  void post(std::function<void()> call) override;
  void post_later(int delay_ms, std::function<void()> call) override;

 private:
  HttpConnection* present() const;  // null when the exchange is over
  const std::shared_ptr<HttpConnection> connection_;
  const uint64_t serial_;
  bool answered_ = false;
};

class HttpConnection : public Connection, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Socket socket, ConnectionContext& context, std::string address)
      : socket_(std::move(socket)),
        context_(context),
        address_(std::move(address)),
        read_timer_(socket_.get_executor()),
        write_timer_(socket_.get_executor()) {
    ++context_.metrics.open_connections;
    ++context_.metrics.connections;
  }
  ~HttpConnection() override { --context_.metrics.open_connections; }

  void start() override {
    on_strand([](HttpConnection& self) { self.wait_for_request(); });
  }
  void finish() override {
    on_strand([](HttpConnection& self) {
      self.closing_ = true;
      if (self.state_ == State::kIdle || self.state_ == State::kHead) self.close_now();
    });
  }
  void end_answer() override {
    on_strand([](HttpConnection& self) { self.shut_down_answer(); });
  }
  void close() override {
    on_strand([](HttpConnection& self) { self.lose_client("shutdown"); });
  }

 private:
  friend class Exchange;
  using Code = boost::system::error_code;
  using Clock = std::chrono::steady_clock;
  using Parser = http::request_parser<http::string_body>;
  enum class State { kIdle, kHead, kBody, kAnswering, kLingering, kClosed };

  template <typename Call>
  void on_strand(Call call) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), call] { call(*self); });
  }

  void count_running();
  void forget_running();

  // reading
  void wait_for_request();
  void read_more();
  void on_read(const Code& code, size_t n);
  void skip_empty_lines();
  void advance();
  void parse_head();
  bool feed_parser();
  void on_head();
  std::optional<ApiError> check_head(const Parser::value_type& message) const;
  bool read_head(const Parser::value_type& message);
  void expect_body();
  void parse_body();
  void count_body();
  void arm_read_timer(milliseconds delay);
  void on_read_timeout();
  void linger(size_t n);

  // answering
  void begin_answering();
  void handle_request();
  void refuse(const ApiError& error);
  void respond(HttpResponse response);
  void begin_stream();
  void stream_frame(std::string frame);
  void end_stream();
  void shut_down_answer();
  void abandoned(uint64_t serial);
  void lose_client(const char* why);
  void finish_answer(const char* end);
  void release_exchange();

  // writing
  void enqueue(std::string bytes);
  void pump();
  void on_written(const Code& code, size_t n);
  void watch_writing();
  void close_now();

  Socket socket_;
  ConnectionContext& context_;
  const std::string address_;
  State state_ = State::kIdle;
  bool closing_ = false;  // after the present answer

  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  bool reading_ = false;
  // Where a read that is under way writes: while a client is watched during its answer, the buffer is taken from and
  // shrunk.
  std::vector<char> incoming_;
  asio::steady_timer read_timer_;
  uint64_t read_timer_serial_ = 0;
  Clock::time_point body_began_;
  size_t body_bytes_ = 0;  // counted in metrics.body_bytes
  size_t lingered_ = 0;

  // the present exchange
  uint64_t serial_ = 0;  // of the exchange; changes when it is over
  HttpRequest request_;
  FrontDoor::Entry entry_;
  RequestRecord record_;
  std::string label_;
  Clock::time_point head_came_;
  bool counted_ = false;  // in metrics.running_requests
  bool http10_ = false, keep_alive_ = false, head_only_ = false;
  bool head_sent_ = false, streaming_ = false, answer_whole_ = false;
  std::function<void()> on_drained_, on_gone_, on_shutdown_;

  std::deque<std::string> queue_;
  size_t front_offset_ = 0;  // bytes of queue_.front() that are written
  std::atomic<size_t> queued_bytes_{0};
  bool writing_ = false, watching_ = false;
  asio::steady_timer write_timer_;
  Clock::time_point write_progress_;
};

}  // namespace colibri::server

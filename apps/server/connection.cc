#include "connection.h"

#include <array>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <new>
#include <optional>
#include <random>
#include <utility>

#include "http_text.h"

namespace colibri::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Code = boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMaxHeadBytes = 64 << 10;
constexpr size_t kMaxLineBytes = 16 << 10;
constexpr size_t kMaxHeaders = 100;
constexpr size_t kHeadChunkBytes = 4 << 10;
constexpr size_t kBodyChunkBytes = 64 << 10;
constexpr size_t kMaxAheadBytes = 16 << 10;  // of pipelined requests, while an answer is made
constexpr size_t kKeptBufferBytes = 16 << 10;
constexpr size_t kMaxQueuedStreamBytes = 16 << 20;  // a handler that does not look at queued_bytes()
constexpr int kStreamSendBuffer = 32 << 10;         // else the kernel hides a slow reader behind megabytes
constexpr size_t kBodyBytesPerSecond = 16 << 10;
constexpr size_t kMaxLingerBytes = 4 << 20;
constexpr milliseconds kLinger{2000};

std::string new_request_id() {
  static constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = "req-";
  uint64_t bits = 0;
  for (int i = 0; i < 24; ++i) {
    if (i % 12 == 0) bits = random();
    id += kDigits[bits & 31];
    bits >>= 5;
  }
  return id;
}

ApiError fault(int status, std::string message, std::string code) {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.code = std::move(code);
  if (status == 503) error.retry_after_s = 1;
  return error;
}

ApiError parse_fault(const Code& code, const ConnectionLimits& limits) {
  if (code == http::error::header_limit)
    return fault(431, "the head of the request is longer than 65536 bytes", "headers_too_large");
  if (code == http::error::body_limit)
    return fault(
        413, "the body of the request is longer than " + std::to_string(limits.max_body_bytes) + " bytes (--max-body)",
        "body_too_large");
  if (code == http::error::bad_version) return fault(400, "no HTTP/1.0 or HTTP/1.1 request", "bad_request");
  return fault(400, "no HTTP request: " + code.message(), "bad_request");
}

std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
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

// ---- reading -----------------------------------------------------------------------------------------------------

void HttpConnection::wait_for_request() {
  if (closing_ || context_.door.draining()) return close_now();
  state_ = State::kIdle;
  parser_.reset();
  if (buffer_.size() == 0 && buffer_.capacity() > kKeptBufferBytes) buffer_.shrink_to_fit();
  arm_read_timer(context_.limits.idle);
  if (buffer_.size() > 0) return on_strand([](HttpConnection& self) { self.advance(); });
  read_more();
}

void HttpConnection::read_more() {
  if (reading_ || state_ == State::kClosed) return;
  reading_ = true;
  const size_t chunk = state_ == State::kBody ? kBodyChunkBytes : kHeadChunkBytes;
  if (incoming_.size() != chunk) incoming_ = std::vector<char>(chunk);
  socket_.async_read_some(asio::buffer(incoming_),
                          [self = shared_from_this()](const Code& code, size_t n) { self->on_read(code, n); });
}

void HttpConnection::on_read(const Code& code, size_t n) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  context_.metrics.bytes_in += n;
  buffer_.commit(asio::buffer_copy(buffer_.prepare(n), asio::buffer(incoming_, n)));
  if (state_ == State::kLingering) return code ? close_now() : linger(n);
  if (code && state_ == State::kAnswering && answer_whole_) return;  // it may have closed its side only
  if (code) return state_ == State::kAnswering ? lose_client("client_gone") : close_now();
  advance();
}

// Empty lines before a request are left out, as RFC 9112 asks.
void HttpConnection::skip_empty_lines() {
  const auto bytes = static_cast<const char*>(buffer_.data().data());
  size_t n = 0;
  while (n < buffer_.size() && (bytes[n] == '\r' || bytes[n] == '\n')) ++n;
  buffer_.consume(n);
}

// Goes on with what is in the buffer.
void HttpConnection::advance() {
  if (state_ == State::kIdle) {
    skip_empty_lines();
    if (buffer_.size() == 0) return read_more();
    state_ = State::kHead;
    parser_.emplace();
    parser_->header_limit(kMaxHeadBytes);
    parser_->body_limit(boost::none);  // until it is known who asks for what
    arm_read_timer(context_.limits.header);
  }
  if (state_ == State::kHead) return parse_head();
  if (state_ == State::kBody) return parse_body();
  if (state_ == State::kAnswering && buffer_.size() < kMaxAheadBytes) read_more();
}

// False when more bytes are needed or the request was refused.
bool HttpConnection::feed_parser() {
  Code code;
  try {
    buffer_.consume(parser_->put(buffer_.data(), code));
  } catch (const std::bad_alloc&) {
    refuse(fault(503, "no memory for the body of the request", "out_of_memory"));
    return false;
  }
  if (!code) return true;
  if (code == http::error::need_more) {
    read_more();
    return false;
  }
  refuse(parse_fault(code, context_.limits));
  return false;
}

void HttpConnection::parse_head() {
  while (!parser_->is_header_done()) {
    if (!feed_parser()) return;
    if (!parser_->is_header_done() && buffer_.size() == 0) return read_more();
  }
  on_head();
}

std::optional<ApiError> HttpConnection::check_head(const Parser::value_type& message) const {
  const auto too_long = [](const std::string& what) {
    return fault(431, what + " is longer than 16384 bytes", "headers_too_large");
  };
  if (message.target().size() > kMaxLineBytes) return too_long("the request's target");
  size_t n = 0;
  for (const auto& field : message) {
    if (field.name_string().size() + field.value().size() > kMaxLineBytes) return too_long("a header");
    if (++n > kMaxHeaders) return fault(431, "more than 100 headers", "too_many_headers");
  }
  const auto encoding = message[http::field::transfer_encoding];
  if (!encoding.empty() && !message.chunked())
    return fault(501, "this Transfer-Encoding is not known; chunked is", "unsupported_encoding");
  return std::nullopt;
}

// Fills request_ and what follows from the head; false when its target is bad.
bool HttpConnection::read_head(const Parser::value_type& message) {
  request_ = {};
  request_.method = std::string(message.method_string());
  for (const auto& field : message)
    request_.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                                  std::string(field.value().data(), field.value().size()));
  const std::string_view id = request_.header("x-request-id");
  request_.id = is_good_request_id(id) ? std::string(id) : new_request_id();
  request_.client = address_;
  http10_ = message.version() == 10;
  keep_alive_ = message.keep_alive() && !closing_;
  head_only_ = request_.method == "HEAD";
  const auto target = parse_target({message.target().data(), message.target().size()});
  if (!target) return false;
  request_.path = target->path;
  request_.query = target->query;
  return true;
}

void HttpConnection::on_head() {
  const Parser::value_type& message = parser_->get();
  head_came_ = Clock::now();
  if (!read_head(message)) return refuse(fault(400, "the request's target is no path of a URL", "bad_path"));
  if (const auto error = check_head(message)) return refuse(*error);
  entry_ = context_.door.enter(request_, http10_);
  if (entry_.route != nullptr) label_ = entry_.route->path;
  if (entry_.answer) {
    if (!parser_->is_done() && parser_->content_length_remaining().value_or(1) > 0) keep_alive_ = false;
    begin_answering();
    return respond(std::move(*entry_.answer));
  }
  expect_body();
}

void HttpConnection::expect_body() {
  state_ = State::kBody;
  count_running();
  const std::string_view expect = request_.header("expect");
  if (!expect.empty() && lower_case(expect) != "100-continue")
    return refuse(fault(417, "this Expect is not known; 100-continue is", "bad_expect"));
  const auto length = parser_->content_length();
  if (length && *length > context_.limits.max_body_bytes)
    return refuse(parse_fault(http::error::body_limit, context_.limits));
  if (!expect.empty() && !http10_ && buffer_.size() == 0 && !parser_->is_done())
    enqueue("HTTP/1.1 100 Continue\r\n\r\n");
  parser_->eager(true);
  parser_->body_limit(context_.limits.max_body_bytes);
  body_began_ = Clock::now();
  arm_read_timer(context_.limits.body);
  parse_body();
}

void HttpConnection::parse_body() {
  while (!parser_->is_done()) {
    if (buffer_.size() == 0) return read_more();
    if (!feed_parser()) {
      if (state_ == State::kBody) count_body();
      return;
    }
    count_body();
    if (state_ != State::kBody) return;
  }
  handle_request();
}

// Large bodies of many clients share a bound; a body that keeps coming gets more time.
void HttpConnection::count_body() {
  const size_t size = parser_->get().body().size(), grown = size - body_bytes_;
  body_bytes_ = size;
  const int64_t all = context_.metrics.body_bytes += static_cast<int64_t>(grown);
  if (static_cast<size_t>(all) > context_.limits.max_all_bodies_bytes && size > kBodyChunkBytes)
    return refuse(fault(503, "too many large requests at a time; ask again in a moment", "too_many_large_requests"));
  const auto until = body_began_ + context_.limits.body + milliseconds(1000 * size / kBodyBytesPerSecond);
  arm_read_timer(std::chrono::duration_cast<milliseconds>(until - Clock::now()));
}

void HttpConnection::arm_read_timer(milliseconds delay) {
  read_timer_.expires_after(delay);
  read_timer_.async_wait([self = shared_from_this(), serial = ++read_timer_serial_](const Code& code) {
    if (!code && serial == self->read_timer_serial_) self->on_read_timeout();
  });
}

void HttpConnection::on_read_timeout() {
  if (state_ == State::kIdle || state_ == State::kLingering) return close_now();
  if (state_ != State::kHead && state_ != State::kBody) return;
  ++context_.metrics.timeouts;
  const bool head = state_ == State::kHead;
  refuse(fault(408,
               head ? "the head of the request took too long to arrive (--header-timeout)"
                    : "the body of the request took too long to arrive (--body-timeout)",
               "request_timeout"));
}

// After the last answer: what the client still sends is read, so that its kernel does not throw our answer away.
void HttpConnection::linger(size_t n) {
  buffer_.consume(buffer_.size());
  lingered_ += n;
  lingered_ > kMaxLingerBytes ? close_now() : read_more();
}

// ---- answering ---------------------------------------------------------------------------------------------------

void HttpConnection::begin_answering() {
  state_ = State::kAnswering;
  ++read_timer_serial_;
  read_timer_.cancel();
  head_sent_ = streaming_ = answer_whole_ = false;
  count_running();
  record_ = {};
  record_.id = request_.id;
  record_.client = request_.client;
  record_.method = request_.method;
  record_.path = request_.path;
  record_.bytes_in = body_bytes_;
}

void HttpConnection::handle_request() {
  request_.body = std::move(parser_->get().body());
  begin_answering();
  const Route* route = entry_.route;
  auto exchange = std::make_shared<Exchange>(shared_from_this(), serial_);
  try {
    route->handler(std::move(request_), std::move(exchange));
  } catch (const std::exception& error) {
    context_.log.line(LogLevel::kError, "request " + record_.id + ": " + error.what());
    if (state_ == State::kAnswering && !head_sent_)
      respond(context_.door.router().error(
          record_.path, fault(500, "internal error; the server's log knows more", "internal_error")));
    else
      lose_client("error");
    return;
  }
  if (state_ == State::kAnswering) advance();  // watch the client
}

// Answers a request that is not read to its end, so that the connection cannot go on.
void HttpConnection::refuse(const ApiError& error) {
  if (request_.id.empty()) request_.id = new_request_id(), request_.client = address_, head_came_ = Clock::now();
  keep_alive_ = false;
  begin_answering();
  respond(context_.door.router().error(request_.path, error));
}

void HttpConnection::respond(HttpResponse response) {
  if (head_sent_) return;
  head_sent_ = answer_whole_ = true;
  keep_alive_ = keep_alive_ && !closing_ && !context_.door.draining();
  record_.status = response.status;
  Headers headers = std::move(entry_.headers);
  headers.insert(headers.end(), response.headers.begin(), response.headers.end());
  Framing framing;
  framing.keep_alive = keep_alive_;
  if (response.status >= 200 && response.status != 204 && response.status != 304)
    framing.content_length = response.body.size();
  enqueue(answer_head(response.status, framing, response.content_type, record_.id, headers));
  if (!head_only_ && framing.content_length) enqueue(std::move(response.body));
  pump();
}

void HttpConnection::begin_stream() {
  if (head_sent_) return;
  head_sent_ = streaming_ = true;
  keep_alive_ = keep_alive_ && !http10_ && !closing_ && !context_.door.draining();
  record_.status = 200;
  Code ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(kStreamSendBuffer), ignored);
  Headers headers = std::move(entry_.headers);
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  Framing framing;
  framing.keep_alive = keep_alive_;
  framing.chunked = !http10_;
  enqueue(answer_head(200, framing, "text/event-stream", record_.id, headers));
  pump();
}

void HttpConnection::stream_frame(std::string frame) {
  if (!streaming_ || answer_whole_ || frame.empty()) return;
  if (queued_bytes_ + frame.size() > kMaxQueuedStreamBytes) {
    ++context_.metrics.slow_readers;
    return lose_client("slow_client");
  }
  enqueue(http10_ ? std::move(frame) : chunk_of(frame));
  pump();
}

void HttpConnection::end_stream() {
  if (!streaming_ || answer_whole_) return;
  answer_whole_ = true;
  if (!http10_) enqueue("0\r\n\r\n");
  pump();
  if (!writing_) finish_answer("done");
}

void HttpConnection::shut_down_answer() {
  closing_ = true;
  if (state_ != State::kAnswering) return close_now();
  if (answer_whole_) return;  // the client takes it, or is closed
  if (on_shutdown_) return std::exchange(on_shutdown_, nullptr)();
  const ApiError error = fault(503, "the server is shutting down", "shutting_down");
  if (!head_sent_) return respond(context_.door.router().error(record_.path, error));
  stream_frame("data: " + context_.door.router().error(record_.path, error).body + "\n\n");
  end_stream();
}

// The handler dropped its Responder.
void HttpConnection::abandoned(uint64_t serial) {
  if (serial != serial_ || state_ != State::kAnswering || answer_whole_) return;
  context_.log.line(LogLevel::kError, "request " + record_.id + ": its route gave no answer");
  if (head_sent_) return lose_client("error");
  respond(context_.door.router().error(record_.path,
                                       fault(500, "internal error: the route gave no answer", "internal_error")));
}

// Ends an exchange whose answer cannot be delivered.
void HttpConnection::lose_client(const char* why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kAnswering) {
    ++context_.metrics.gone_clients;
    const auto gone = answer_whole_ ? nullptr : std::exchange(on_gone_, nullptr);
    record_.end = why;
    release_exchange();
    state_ = State::kClosed;  // whatever `gone` calls does nothing
    if (gone) gone();
  }
  close_now();
}

void HttpConnection::finish_answer(const char* end) {
  record_.end = end;
  release_exchange();
  if (keep_alive_) return wait_for_request();
  state_ = State::kLingering;
  Code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  arm_read_timer(kLinger);
  read_more();
}

// The exchange is over: log, count, and let go of what it held.
void HttpConnection::release_exchange() {
  ++serial_;
  on_drained_ = on_gone_ = on_shutdown_ = nullptr;
  record_.seconds = std::chrono::duration<double>(Clock::now() - head_came_).count();
  context_.log.request(record_);
  context_.metrics.count_request(label_.empty() ? "other" : record_.method, label_.empty() ? "other" : label_,
                                 record_.status, record_.seconds);
  forget_running();
  request_ = {};
  entry_ = {};
  label_.clear();
}

void HttpConnection::count_running() {
  if (!std::exchange(counted_, true)) ++context_.metrics.running_requests;
}

void HttpConnection::forget_running() {
  context_.metrics.body_bytes -= static_cast<int64_t>(std::exchange(body_bytes_, 0));
  if (!std::exchange(counted_, false)) return;
  --context_.metrics.running_requests;
  context_.on_answered();
}

// ---- writing -----------------------------------------------------------------------------------------------------

void HttpConnection::enqueue(std::string bytes) {
  if (bytes.empty()) return;
  queued_bytes_ += bytes.size();
  context_.metrics.queued_bytes += static_cast<int64_t>(bytes.size());
  queue_.push_back(std::move(bytes));
  if (state_ != State::kAnswering) pump();
}

void HttpConnection::pump() {
  if (writing_ || queue_.empty() || state_ == State::kClosed) return;
  std::array<asio::const_buffer, 16> buffers;
  size_t n = 0;
  for (const std::string& bytes : queue_) {
    if (n == buffers.size()) break;
    buffers[n++] = asio::buffer(bytes);
  }
  buffers[0] += front_offset_;
  writing_ = true;
  write_progress_ = Clock::now();
  if (!watching_) watch_writing();
  socket_.async_write_some(
      buffers, [self = shared_from_this()](const Code& code, size_t written) { self->on_written(code, written); });
}

void HttpConnection::on_written(const Code& code, size_t n) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (code) return lose_client("client_gone");
  write_progress_ = Clock::now();
  record_.bytes_out += n;
  context_.metrics.bytes_out += n;
  context_.metrics.queued_bytes -= static_cast<int64_t>(n);
  queued_bytes_ -= n;
  for (front_offset_ += n; !queue_.empty() && front_offset_ >= queue_.front().size(); queue_.pop_front())
    front_offset_ -= queue_.front().size();
  if (!queue_.empty()) return pump();
  if (state_ != State::kAnswering) return;  // 100 Continue
  if (answer_whole_) return finish_answer("done");
  if (!on_drained_) return;
  const std::function<void()> call = on_drained_;  // which it may replace
  call();
}

// One timer for as long as something is queued, not one for every write.
void HttpConnection::watch_writing() {
  watching_ = true;
  write_timer_.expires_at(write_progress_ + context_.limits.write);
  write_timer_.async_wait([self = shared_from_this()](const Code& code) {
    self->watching_ = false;
    if (code || self->state_ == State::kClosed || self->queue_.empty()) return;
    if (Clock::now() < self->write_progress_ + self->context_.limits.write) return self->watch_writing();
    ++self->context_.metrics.slow_readers;
    self->lose_client("slow_client");
  });
}

void HttpConnection::close_now() {
  state_ = State::kClosed;
  forget_running();
  entry_ = {};
  ++read_timer_serial_;
  read_timer_.cancel();
  write_timer_.cancel();
  context_.metrics.queued_bytes -= static_cast<int64_t>(queued_bytes_.exchange(0));
  Code ignored;
  socket_.close(ignored);
}

// ---- the handler's end -------------------------------------------------------------------------------------------

HttpConnection* Exchange::present() const {
  const bool over = connection_->serial_ != serial_ || connection_->state_ != HttpConnection::State::kAnswering;
  return over ? nullptr : connection_.get();
}

Exchange::~Exchange() {
  if (answered_ || connection_->context_.ending) return;
  connection_->on_strand([serial = serial_](HttpConnection& self) { self.abandoned(serial); });
}

void Exchange::respond(HttpResponse response) {
  answered_ = true;
  if (HttpConnection* connection = present()) connection->respond(std::move(response));
}

void Exchange::begin_stream() {
  if (HttpConnection* connection = present()) connection->begin_stream();
}

void Exchange::write(std::string frame) {
  if (HttpConnection* connection = present()) connection->stream_frame(std::move(frame));
}

void Exchange::end_stream() {
  answered_ = true;
  if (HttpConnection* connection = present()) connection->end_stream();
}

size_t Exchange::queued_bytes() const {
  const HttpConnection* connection = present();
  return connection != nullptr ? connection->queued_bytes_.load() : 0;
}

void Exchange::on_drained(std::function<void()> call) {
  if (HttpConnection* connection = present()) connection->on_drained_ = std::move(call);
}

void Exchange::on_gone(std::function<void()> call) {
  if (HttpConnection* connection = present()) {
    connection->on_gone_ = std::move(call);
  } else if (!answered_) {  // it went before anybody asked
    post(std::move(call));
  }
}

void Exchange::on_shutdown(std::function<void()> call) {
  if (HttpConnection* connection = present()) connection->on_shutdown_ = std::move(call);
}

void Exchange::count_tokens(int64_t prompt, int64_t cached, int64_t generated) {
  HttpConnection* connection = present();
  if (connection == nullptr) return;
  connection->record_.prompt_tokens = prompt;
  connection->record_.cached_tokens = cached;
  connection->record_.generated_tokens = generated;
}

void Exchange::post(std::function<void()> call) {
  asio::post(connection_->socket_.get_executor(), [connection = connection_, call = std::move(call)] { call(); });
}

void Exchange::post_later(int delay_ms, std::function<void()> call) {
  auto timer = std::make_shared<asio::steady_timer>(connection_->socket_.get_executor(), milliseconds(delay_ms));
  timer->async_wait([timer, connection = connection_, call = std::move(call)](const Code&) { call(); });
}

}  // namespace

std::shared_ptr<Connection> make_connection(Socket socket, ConnectionContext& context, std::string address) {
  return std::make_shared<HttpConnection>(std::move(socket), context, std::move(address));
}

}  // namespace colibri::server

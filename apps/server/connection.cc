// Reading: requests as they come, and what is refused before a handler sees it.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <new>
#include <random>

#include "http_connection.h"
#include "http_text.h"

namespace colibri::server {
namespace {

constexpr size_t kMaxHeadBytes = 64 << 10;
constexpr size_t kMaxLineBytes = 16 << 10;
constexpr size_t kMaxHeaders = 100;
constexpr size_t kHeadChunkBytes = 4 << 10;
constexpr size_t kBodyChunkBytes = 64 << 10;
constexpr size_t kMaxAheadBytes = 16 << 10;  // of pipelined requests, while an answer is made
constexpr size_t kKeptBufferBytes = 16 << 10;
constexpr size_t kBodyBytesPerSecond = 16 << 10;
constexpr size_t kMaxLingerBytes = 64 << 20;

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

ApiError parse_fault(const boost::system::error_code& code, const ConnectionLimits& limits) {
  if (code == http::error::header_limit)
    return connection_fault(431, "the head of the request is longer than 65536 bytes", "headers_too_large");
  if (code == http::error::body_limit)
    return connection_fault(
        413, "the body of the request is longer than " + std::to_string(limits.max_body_bytes) + " bytes (--max-body)",
        "body_too_large");
  if (code == http::error::bad_version) return connection_fault(400, "no HTTP/1.0 or HTTP/1.1 request", "bad_request");
  return connection_fault(400, "no HTTP request: " + code.message(), "bad_request");
}

std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

}  // namespace

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
    refuse(connection_fault(503, "no memory for the body of the request", "out_of_memory"));
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
    return connection_fault(431, what + " is longer than 16384 bytes", "headers_too_large");
  };
  if (message.target().size() > kMaxLineBytes) return too_long("the request's target");
  size_t n = 0;
  for (const auto& field : message) {
    if (field.name_string().size() + field.value().size() > kMaxLineBytes) return too_long("a header");
    if (++n > kMaxHeaders) return connection_fault(431, "more than 100 headers", "too_many_headers");
  }
  const auto encoding = message[http::field::transfer_encoding];
  if (!encoding.empty() && !message.chunked())
    return connection_fault(501, "this Transfer-Encoding is not known; chunked is", "unsupported_encoding");
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
  if (!read_head(message)) return refuse(connection_fault(400, "the request's target is no path of a URL", "bad_path"));
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
    return refuse(connection_fault(417, "this Expect is not known; 100-continue is", "bad_expect"));
  const std::string_view encoding = request_.header("content-encoding");
  if (!encoding.empty() && lower_case(encoding) != "identity")
    return refuse(connection_fault(415, "bodies with a Content-Encoding are not read", "unsupported_encoding"));
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

// Large bodies of many clients share a bound; a body that keeps coming gets more time, one that stops does not.
void HttpConnection::count_body() {
  const size_t size = parser_->get().body().size(), grown = size - body_bytes_;
  body_bytes_ = size;
  const int64_t all = context_.metrics.body_bytes += static_cast<int64_t>(grown);
  if (static_cast<size_t>(all) > context_.limits.max_all_bodies_bytes && size > kBodyChunkBytes)
    return refuse(
        connection_fault(503, "too many large requests at a time; ask again in a moment", "too_many_large_requests"));
  const auto now = Clock::now();
  const auto until = body_began_ + context_.limits.body + milliseconds(1000 * size / kBodyBytesPerSecond);
  arm_read_timer(std::chrono::duration_cast<milliseconds>(std::min(until, now + context_.limits.body) - now));
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
  refuse(connection_fault(408,
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

// Answers a request that is not read to its end, so that the connection cannot go on.
void HttpConnection::refuse(const ApiError& error) {
  if (request_.id.empty()) request_.id = new_request_id(), request_.client = address_, head_came_ = Clock::now();
  keep_alive_ = false;
  begin_answering();
  respond(context_.door.router().error(request_.path, error));
}

std::shared_ptr<Connection> make_connection(Socket socket, ConnectionContext& context, std::string address) {
  return std::make_shared<HttpConnection>(std::move(socket), context, std::move(address));
}

}  // namespace colibri::server

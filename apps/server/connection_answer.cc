// Answering and writing: what a handler says goes out as the client takes it.
#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>

#include "http_connection.h"
#include "http_text.h"

namespace colibri::server {
namespace {

constexpr size_t kMaxQueuedStreamBytes = 16 << 20;  // a handler that does not look at queued_bytes()
constexpr int kStreamSendBuffer = 32 << 10;         // else the kernel hides a slow reader behind megabytes
constexpr milliseconds kLinger{2000};

}  // namespace

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
          record_.path, connection_fault(500, "internal error; the server's log knows more", "internal_error")));
    else
      lose_client("error");
    return;
  }
  if (state_ == State::kAnswering) advance();  // watch the client
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
  const ApiError error = connection_fault(503, "the server is shutting down", "shutting_down");
  if (!head_sent_) return respond(context_.door.router().error(record_.path, error));
  stream_frame("data: " + context_.door.router().error(record_.path, error).body + "\n\n");
  end_stream();
}

// The handler dropped its Responder.
void HttpConnection::abandoned(uint64_t serial) {
  if (serial != serial_ || state_ != State::kAnswering || answer_whole_) return;
  context_.log.line(LogLevel::kError, "request " + record_.id + ": its route gave no answer");
  if (head_sent_) return lose_client("error");
  respond(context_.door.router().error(
      record_.path, connection_fault(500, "internal error: the route gave no answer", "internal_error")));
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

size_t Exchange::all_queued_bytes() const {
  return static_cast<size_t>(std::max<int64_t>(0, connection_->context_.metrics.queued_bytes));
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
  timer->async_wait(
      [timer, connection = connection_, call = std::move(call)](const boost::system::error_code&) { call(); });
}

}  // namespace colibri::server

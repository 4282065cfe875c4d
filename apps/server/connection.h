// One client's connection: bytes to requests, answers to bytes, and all that can go wrong between them.
//
// One state machine on one strand: it reads the head of a request, asks the front door, reads the body, calls the
// route's handler, writes its answer, and goes on with the next request. While an answer is being made it keeps
// reading, so that a client that goes is noticed at once; a pipelined request waits in the buffer. Ownership: pending
// operations and the Responder hold the connection; a Responder that is dropped without an answer gives 500. Invariant:
// at most one read and one write are pending. HTTP is parsed by Boost.Beast, in this file's source only.
#pragma once

#include <atomic>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "front_door.h"
#include "log.h"
#include "metrics.h"

namespace colibri::server {

struct ConnectionLimits {
  size_t max_body_bytes = size_t{4} << 20;
  size_t max_all_bodies_bytes = size_t{32} << 20;  ///< of all requests that are being read or answered
  std::chrono::milliseconds header{10000}, body{30000}, idle{75000}, write{60000};
};

/// What all connections share. Outlives them.
struct ConnectionContext {
  FrontDoor& door;
  ServerMetrics& metrics;
  Log& log;
  ConnectionLimits limits;
  std::function<void()> on_answered;  ///< after every answer, from any thread; quick
  std::atomic<bool> ending{false};    ///< no thread serves connections any more
};

using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                boost::asio::strand<boost::asio::io_context::executor_type>>;

/// What the server may do with a connection, from any thread.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  /// Closes it now if it waits for a request, else after the present answer.
  virtual void finish() = 0;
  /// Ends the present answer with an error, then closes.
  virtual void end_answer() = 0;
  virtual void close() = 0;
};

/// `address`: of the client, for the log and the limits.
std::shared_ptr<Connection> make_connection(Socket socket, ConnectionContext& context, std::string address);

}  // namespace colibri::server

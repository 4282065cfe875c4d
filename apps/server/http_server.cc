#include "http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "connection.h"
#include "http_text.h"

namespace colibri::server {
namespace {

namespace asio = boost::asio;
using Code = boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Endpoint = Protocol::endpoint;
using Acceptor = asio::basic_socket_acceptor<Protocol>;
using common::Error;
using common::Outcome;
using common::Status;
using std::chrono::milliseconds;

constexpr int kBacklog = 1024;
constexpr int kMaxRefusedAtATime = 128;
constexpr milliseconds kAcceptPause{50};
constexpr milliseconds kRefusalTime{200};
constexpr milliseconds kLastWait{500};

// "127.0.0.1" and the port; for a UNIX socket its path.
struct Name {
  std::string host;
  int port = 0;
  int family = AF_UNSPEC;
  bool loopback = false;
};

Name name_of(const Endpoint& endpoint) {
  Name name;
  const auto* address = reinterpret_cast<const sockaddr*>(endpoint.data());
  name.family = address->sa_family;
  char text[INET6_ADDRSTRLEN] = "";
  if (name.family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    name.host = inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    name.port = ntohs(v4->sin_port);
    name.loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  } else if (name.family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    name.host = inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    if (name.host.starts_with("::ffff:")) name.host.erase(0, 7);
    name.port = ntohs(v6->sin6_port);
    name.loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  } else {
    name.host = "unix";
    name.loopback = true;
  }
  return name;
}

bool is_socket_path(const std::string& host) { return host.find('/') != host.npos; }

std::string url_of(const Name& name, const std::string& host) {
  if (name.family == AF_UNIX) return "unix:" + host;
  const std::string shown = name.family == AF_INET6 ? "[" + name.host + "]" : name.host;
  return "http://" + shown + ":" + std::to_string(name.port);
}

Error cannot_listen(const std::string& where, const Code& code) {
  const bool used = code == asio::error::address_in_use;
  const bool denied = code == asio::error::access_denied;
  return common::run_error("cannot listen on " + where + ": " + code.message() +
                           (used     ? "; stop the other server, or choose another --port"
                            : denied ? "; choose a --port above 1023, or give the program the right"
                                     : "; see --host and --port"));
}

// A socket file that nobody listens on is left over from a server that was killed.
void remove_stale_socket(asio::io_context& io, const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  asio::local::stream_protocol::socket probe(io);
  Code code;
  probe.connect(asio::local::stream_protocol::endpoint(path), code);
  if (code == asio::error::connection_refused) ::unlink(path.c_str());
}

Outcome<std::vector<Endpoint>> endpoints_of(asio::io_context& io, const std::string& host, int port) {
  if (is_socket_path(host)) {
    if (host.size() >= sizeof(sockaddr_un::sun_path))
      return common::usage_error("host: the path of a UNIX socket has at most 107 bytes: " + host);
    remove_stale_socket(io, host);
    return std::vector<Endpoint>{Endpoint(asio::local::stream_protocol::endpoint(host))};
  }
  Code code;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), asio::ip::tcp::resolver::passive, code);
  if (code || found.empty())
    return common::run_error("cannot listen on " + host + ": " + code.message() + "; see --host");
  std::vector<Endpoint> endpoints;
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  return endpoints;
}

Code listen_on(Acceptor& acceptor, const Endpoint& endpoint, bool v6_only) {
  Code code;
  acceptor.open(endpoint.protocol(), code);
  const bool tcp = name_of(endpoint).family != AF_UNIX;
  if (!code && tcp) acceptor.set_option(asio::socket_base::reuse_address(true), code);
  if (!code && name_of(endpoint).family == AF_INET6) acceptor.set_option(asio::ip::v6_only(v6_only), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(kBacklog, code);
  return code;
}

Endpoint with_port(const Endpoint& endpoint, int port) {
  const Name name = name_of(endpoint);
  if (name.family == AF_UNIX) return endpoint;
  return Endpoint(asio::ip::tcp::endpoint(asio::ip::make_address(name.host), static_cast<uint16_t>(port)));
}

}  // namespace

struct HttpServer::State {
  State(const ServerSettings& chosen, FrontDoor& door, ServerMetrics& metrics, Log& log)
      : settings(chosen), context{door, metrics, log, limits_of(chosen), [this] { notify(); }} {}

  static ConnectionLimits limits_of(const ServerSettings& from) {
    ConnectionLimits limits;
    limits.max_body_bytes = from.max_body_bytes;
    limits.max_all_bodies_bytes = std::max<size_t>(limits.max_all_bodies_bytes, 4 * from.max_body_bytes);
    limits.header = std::chrono::seconds(from.header_timeout_s);
    limits.body = std::chrono::seconds(from.body_timeout_s);
    limits.idle = std::chrono::seconds(from.idle_timeout_s);
    limits.write = std::chrono::seconds(from.write_timeout_s);
    return limits;
  }

  Status listen(bool open_to_all);
  void accept(Acceptor& acceptor);
  void welcome(Socket socket);
  void refuse(Socket socket);
  void remember(const std::shared_ptr<Connection>& connection);
  std::vector<std::shared_ptr<Connection>> present();
  void notify();
  void serve();

  const ServerSettings settings;
  std::mutex mutex;
  std::condition_variable answered;
  std::vector<std::weak_ptr<Connection>> connections;
  size_t purge_at = 64;
  ConnectionContext context;
  asio::io_context io;  // after what the last of its handlers use when they are thrown away
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{asio::make_work_guard(io)};
  std::list<Acceptor> acceptors;  // each on a strand of its own
  std::vector<std::string> urls;
  std::string socket_path;  // to be removed at the end
  std::atomic<int> refused_now{0};
  std::vector<std::thread> threads;
};

Status HttpServer::State::listen(bool open_to_all) {
  const auto endpoints = endpoints_of(io, settings.host, settings.port);
  if (!endpoints) return endpoints.error();
  int port = settings.port;
  Code last;
  for (const Endpoint& endpoint : *endpoints) {
    if (!name_of(endpoint).loopback && !open_to_all)
      return common::usage_error("host " + settings.host +
                                 " lets other machines in, and there are no API keys; give "
                                 "--api-key-file FILE, or --insecure if everybody may come");
    Acceptor& acceptor = acceptors.emplace_back(asio::make_strand(io));
    const Code code = listen_on(acceptor, with_port(endpoint, port), endpoints->size() > 1);
    const std::string where =
        is_socket_path(settings.host) ? settings.host : settings.host + " port " + std::to_string(port);
    if (code == asio::error::address_in_use || code == asio::error::access_denied) return cannot_listen(where, code);
    if (code) {  // a name may have addresses that this machine lacks
      acceptors.pop_back();
      last = code;
      continue;
    }
    const Name name = name_of(acceptor.local_endpoint());
    port = name.port;
    urls.push_back(url_of(name, settings.host));
    if (name.family == AF_UNIX) socket_path = settings.host;
  }
  if (acceptors.empty()) return cannot_listen(settings.host, last);
  return {};
}

void HttpServer::State::accept(Acceptor& acceptor) {
  auto socket = std::make_shared<Socket>(asio::make_strand(io));
  acceptor.async_accept(*socket, [this, &acceptor, socket](const Code& code) {
    if (code == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (!code) {
      welcome(std::move(*socket));
      return accept(acceptor);
    }
    // Most likely there are too many open files; those who wait are served when some were closed.
    context.log.line(LogLevel::kWarn, "cannot accept a connection: " + code.message());
    auto pause = std::make_shared<asio::steady_timer>(acceptor.get_executor(), kAcceptPause);
    pause->async_wait([this, &acceptor, pause](const Code&) {
      if (acceptor.is_open()) accept(acceptor);
    });
  });
}

void HttpServer::State::welcome(Socket socket) {
  if (context.metrics.open_connections >= settings.max_connections) return refuse(std::move(socket));
  Code ignored;
  const Endpoint peer = socket.remote_endpoint(ignored);
  const std::string address = ignored || peer.size() == 0 ? "unknown" : name_of(peer).host;
  const int on = 1;
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on,
               sizeof(on));  // a UNIX socket refuses, and needs none
  const auto connection = make_connection(std::move(socket), context, address);
  remember(connection);
  connection->start();
}

// Says so and closes a little later: a close at once would throw the words away.
void HttpServer::State::refuse(Socket socket) {
  ++context.metrics.refused_connections;
  if (refused_now >= kMaxRefusedAtATime) return;
  ApiError error;
  error.status = 503;
  error.message = "too many connections, at most " + std::to_string(settings.max_connections) + " (--max-connections)";
  error.code = "too_many_connections";
  error.retry_after_s = 1;
  const HttpResponse answer = error_answer(error);
  Framing framing;
  framing.keep_alive = false;
  framing.content_length = answer.body.size();
  const std::string text = answer_head(503, framing, answer.content_type, "refused", answer.headers) + answer.body;
  Code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(asio::socket_base::shutdown_send, ignored);
  ++refused_now;
  auto held = std::make_shared<Socket>(std::move(socket));
  auto timer = std::make_shared<asio::steady_timer>(io, kRefusalTime);
  timer->async_wait([this, held, timer](const Code&) {
    char sink[4096];
    Code stop;
    held->read_some(asio::buffer(sink), stop);
    --refused_now;
  });
}

void HttpServer::State::remember(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex);
  if (connections.size() >= purge_at) {
    std::erase_if(connections, [](const auto& one) { return one.expired(); });
    purge_at = std::max<size_t>(64, 2 * connections.size());
  }
  connections.push_back(connection);
}

std::vector<std::shared_ptr<Connection>> HttpServer::State::present() {
  std::vector<std::shared_ptr<Connection>> alive;
  const std::lock_guard lock(mutex);
  for (const auto& one : connections)
    if (auto connection = one.lock()) alive.push_back(std::move(connection));
  return alive;
}

// What a handler throws, out of memory most likely, ends its call and not the server.
void HttpServer::State::serve() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      context.log.line(LogLevel::kError, std::string("a call of a request failed: ") + error.what());
    }
  }
}

void HttpServer::State::notify() {
  const std::lock_guard lock(mutex);
  answered.notify_all();
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<HttpServer>> HttpServer::open(const ServerSettings& settings, bool open_to_all, FrontDoor& door,
                                                      ServerMetrics& metrics, Log& log) {
  auto state = std::make_unique<State>(settings, door, metrics, log);
  if (const Status listening = state->listen(open_to_all); !listening) return listening.error();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

const std::vector<std::string>& HttpServer::urls() const { return state_->urls; }

void HttpServer::run() {
  for (Acceptor& acceptor : state_->acceptors) state_->accept(acceptor);
  for (int i = 0; i < state_->settings.http_threads; ++i) {
    state_->threads.emplace_back([this] { state_->serve(); });
    pthread_setname_np(state_->threads.back().native_handle(), "colibri-http");
  }
}

void HttpServer::stop_listening() {
  for (Acceptor& acceptor : state_->acceptors) {
    asio::post(acceptor.get_executor(), [&acceptor] {
      Code ignored;
      acceptor.close(ignored);
    });
  }
  for (const auto& connection : state_->present()) connection->finish();
}

bool HttpServer::wait_answers(milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->answered.wait_for(lock, timeout, [this] { return state_->context.metrics.running_requests == 0; });
}

void HttpServer::end_answers() {
  for (const auto& connection : state_->present()) connection->end_answer();
}

HttpServer::~HttpServer() {
  stop_listening();
  const auto until = std::chrono::steady_clock::now() + kLastWait;
  while (!state_->threads.empty() && state_->context.metrics.open_connections > 0 &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(milliseconds(5));
  for (const auto& connection : state_->present()) connection->close();
  // Closed connections let go of their handlers' state on these threads, while the engine is still there.
  std::this_thread::sleep_for(milliseconds(state_->present().empty() ? 0 : 20));
  state_->work.reset();
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->context.ending = true;
  if (!state_->socket_path.empty()) ::unlink(state_->socket_path.c_str());
}

}  // namespace colibri::server

// colibri serve: hands over to the server.

#include "server/serve.h"

#include "commands.h"
#include "session.h"

namespace colibri::cli {

Status serve_command(const ServeArgs& args, StandardOutput& out) {
  if (Status named = require_model(args.engine.model); !named) return named;
  const auto add_routes = [](const server::Site&) {};
  return server::serve(args.engine.model, {args.engine.flags, args.engine.config, args.engine.model}, add_routes, out);
}

}  // namespace colibri::cli

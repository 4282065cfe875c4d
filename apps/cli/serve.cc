// colibri serve: hands over to the server.

#include "server/serve.h"

#include "commands.h"
#include "server/api/api_routes.h"
#include "session.h"

namespace colibri::cli {

Status serve_command(const ServeArgs& args, StandardOutput& out) {
  if (Status named = require_model(args.engine.model); !named) return named;
  return server::serve(args.engine.model, {args.engine.flags, args.engine.config, args.engine.model},
                       server::add_api_routes, out);
}

}  // namespace colibri::cli

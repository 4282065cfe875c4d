// /health, /ready and /metrics: what machines ask that look after the server. None of them waits for the engine.
#pragma once

#include "engine_host.h"
#include "errors.h"
#include "front_door.h"
#include "metrics.h"
#include "router.h"

namespace colibri::server {

/// 503 with what has been read so far, for every route that needs the model. REQUIRES: it is not loaded.
ApiError loading_error(const EngineHost& host);

/// All arguments outlive the router.
void add_operation_routes(Router& router, const FrontDoor& door, EngineHost& host, const ServerMetrics& metrics);

}  // namespace colibri::server

// The description of the API that GET /openapi.json gives: OpenAPI 3.1, for people, generators and fuzzers.
//
// Data, written down in openapi.json and embedded when the program is built; a test compares its paths with the routes.
#pragma once

#include "common/json.h"

namespace colibri::server {

namespace json = common::json;

json::value openapi_description();

}  // namespace colibri::server

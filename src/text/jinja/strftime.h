// strftime with the C locale's names, from our own calendar: no libc, no time zone.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text::jinja {

/// Civil time since the epoch, formatted. Directives: a A b B c C d D e F g G h H I j k l m M n p r R s S t T u U V w W
/// x X y Y z Z f %, also with glibc's '-' (no filling). Others stay as they are.
std::string format_time(int64_t seconds, std::string_view format);

}  // namespace colibri::text::jinja

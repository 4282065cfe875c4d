// How fast this process reads memory: the bound on decoding with resident weights. For reports, not for decisions.
#pragma once

#include "base/result.h"

namespace colibri::platform {

/// Bytes per second that so many threads together read from memory, one after the other address; about 50 ms. Takes
/// up to 128 MiB meanwhile (less where less is left) and gives them back, but the process's peak shows them: call it
/// after what is planned from rss_bytes() and peak_rss_bytes(). kDoesNotFit when that little memory is not there.
/// REQUIRES: threads >= 1.
Result<double> measure_memory_read(int threads);

}  // namespace colibri::platform

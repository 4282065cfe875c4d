// TokenIds: a text as the model sees it. One of the nouns that cross the layers.
#pragma once

#include <cstdint>
#include <vector>

namespace colibri {
using TokenId = int32_t;
using TokenIds = std::vector<TokenId>;
}  // namespace colibri

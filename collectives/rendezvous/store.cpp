// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/store.hpp"

#include "collectives/base/text.hpp"

#include <utility>

namespace hvd::coll {

std::string describe_missing(std::span<const int> ranks) {
    const bool is_one = ranks.size() == 1;
    return (is_one ? "rank " : "ranks ") + format_ranges(ranks) + (is_one ? " has" : " have") +
           " not come to hvd.init()";
}

Error missing_rank(int rank, Error error) {
    auto missing = std::move(error).context(describe_missing({&rank, 1}));
    if (missing.code == Errc::timed_out) {
        missing.message += kMoreTime;
    }
    return missing;
}

}  // namespace hvd::coll

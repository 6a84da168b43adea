// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/store.hpp"

#include <string>
#include <utility>

namespace hvd::coll {

Error missing_rank(std::string_view rank, Error error) {
    auto missing = std::move(error).context(std::string(rank) + " has not come to hvd.init()");
    if (missing.code == Errc::timed_out) {
        missing.message += kMoreTime;
    }
    return missing;
}

}  // namespace hvd::coll

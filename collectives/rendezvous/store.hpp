// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of one job put small values for each other while they start: addresses, keys,
// communicator ids. Never part of a steady step.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::coll {

/// Write once, read by everybody. Keys are paths by convention: "world/0/shm".
///
/// Thread: one at a time.
class Store {
public:
    virtual ~Store() = default;
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    /// Errors: invalid_argument when the key has a different value already.
    [[nodiscard]] virtual Status put(std::string_view key, std::span<const std::byte> value) = 0;

    /// Waits for the key. Errors: timed_out (the message names the key), unavailable.
    [[nodiscard]] virtual Result<std::vector<std::byte>> get(std::string_view key,
                                                             Deadline deadline) = 0;

protected:
    Store() = default;
};

/// "rank 2 has not come to hvd.init()", "ranks 2,4-5 have not come to hvd.init()".
[[nodiscard]] std::string describe_missing(std::span<const int> ranks);

/// The error of a wait for a rank that has ended with `error`; where that rank may only be late,
/// with the remedy.
[[nodiscard]] Error missing_rank(int rank, Error error);

/// The end of an error about ranks that did not come in time.
inline constexpr std::string_view kMoreTime = "; HOROVOD_START_TIMEOUT gives more time";

}  // namespace hvd::coll

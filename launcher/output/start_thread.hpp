// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/process_limit.hpp"

#include <system_error>
#include <thread>
#include <utility>

namespace hvd::launch {

/// Runs `body` on a new thread. Throws Exception, which names the limit, where there can be none.
template <class Body>
[[nodiscard]] std::jthread start_thread(Body body) {
    try {
        return std::jthread(std::move(body));
    } catch (const std::system_error& error) {
        throw Exception(process_error("cannot start a thread", error.code().value()));
    }
}

}  // namespace hvd::launch

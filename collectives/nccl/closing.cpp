// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/closing.hpp"

#include <utility>

namespace hvd::coll::nccl {

void Closing::add(std::unique_ptr<Connection> connection) {
    connections_.push_back(std::move(connection));
}

void Closing::step() noexcept {
    if (connections_.empty()) {
        return;
    }
    try {
        if (gpus_.are_idle()) {
            std::erase_if(connections_, [](const auto& connection) { return connection->close(); });
        }
    } catch (const Exception&) {  // a GPU has failed, as its collectives tell
    }
}

}  // namespace hvd::coll::nccl

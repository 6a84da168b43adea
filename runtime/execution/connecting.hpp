// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace hvd::rt {

/// The exchange of what the members of a lane's communicator need to know of each other before its
/// first task: an allgather through the host's memory. Done at once where there is no need.
///
/// Thread: progress lock.
class Connecting final : public coll::Work {
public:
    /// The communicators outlive this.
    Connecting(coll::Communicator& communicator, coll::Communicator& host, std::size_t members)
        : communicator_(communicator), host_(host), members_(members) {}

    [[nodiscard]] Result<Progress> poll() override;
    [[nodiscard]] std::vector<int> missing() const override {
        return exchange_ != nullptr ? exchange_->missing() : std::vector<int>();
    }

private:
    [[nodiscard]] Result<Progress> advance();
    [[nodiscard]] Status begin(std::span<const std::byte> own);

    coll::Communicator& communicator_;
    coll::Communicator& host_;
    std::size_t members_;
    std::vector<std::byte> infos_;  // of all members by place, and once more the own one
    std::size_t bytes_ = 0;         // of all
    std::unique_ptr<coll::Work> exchange_;
};

}  // namespace hvd::rt

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace hvd::coll {

/// A task that cannot start yet.
class DeferredWork final : public Work {
public:
    /// Gives the task's Work; nullptr: not yet, and it is asked again. May throw Exception.
    using Begin = std::function<std::unique_ptr<Work>()>;

    explicit DeferredWork(Begin begin) : begin_(std::move(begin)) {}

    [[nodiscard]] Result<Progress> poll() override {
        if (!work_) {
            // An exception is a value here, as in Communicator::start.
            try {
                work_ = begin_();
            } catch (const Exception& exception) {
                return exception.error();
            }
        }
        return work_ ? work_->poll() : Progress::pending;
    }

    [[nodiscard]] std::vector<int> missing() const override {
        return work_ ? work_->missing() : std::vector<int>{};
    }

private:
    Begin begin_;
    std::unique_ptr<Work> work_;
};

}  // namespace hvd::coll

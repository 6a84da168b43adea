// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/semaphore.hpp"

#include <utility>

namespace hvd::launch {

void Permit::take(std::function<void()> enter) {
    if (semaphore_->free_ == 0) {
        enter_ = std::move(enter);
        semaphore_->waiting_.push_back(this);
        return;
    }
    --semaphore_->free_;
    is_in_ = true;
    enter();
}

void Permit::give_up() {
    if (enter_) {
        std::erase(semaphore_->waiting_, this);
        enter_ = nullptr;
    }
    if (!std::exchange(is_in_, false)) {
        return;
    }
    if (semaphore_->waiting_.empty()) {
        ++semaphore_->free_;
        return;
    }
    auto& next = *semaphore_->waiting_.front();
    semaphore_->waiting_.pop_front();
    next.is_in_ = true;
    std::exchange(next.enter_, nullptr)();
}

}  // namespace hvd::launch

// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/turnstile.hpp"

#include <utility>

namespace hvd::launch {

void Turn::take(std::function<void()> enter) {
    if (turnstile_->free_ == 0) {
        enter_ = std::move(enter);
        turnstile_->waiting_.push_back(this);
        return;
    }
    --turnstile_->free_;
    is_in_ = true;
    enter();
}

void Turn::give_up() {
    if (enter_) {
        std::erase(turnstile_->waiting_, this);
        enter_ = nullptr;
    }
    if (!std::exchange(is_in_, false)) {
        return;
    }
    if (turnstile_->waiting_.empty()) {
        ++turnstile_->free_;
        return;
    }
    auto& next = *turnstile_->waiting_.front();
    turnstile_->waiting_.pop_front();
    next.is_in_ = true;
    std::exchange(next.enter_, nullptr)();
}

}  // namespace hvd::launch

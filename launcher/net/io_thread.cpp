// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/io_thread.hpp"

#include "launcher/net/asio.hpp"
#include "launcher/net/simulated_time.hpp"

#include <utility>

namespace hvd::launch {

// One thread runs the loop: the hint saves the locks that several would need.
IoThread::IoThread() : context_(std::make_unique<boost::asio::io_context>(1)) {}

IoThread::IoThread(SimulatedTime& time)
    : context_(std::make_unique<boost::asio::io_context>(1)), simulated_time_(&time) {}

IoThread::~IoThread() = default;

void IoThread::run() {
    context_->restart();
    if (simulated_time_ == nullptr) {
        context_->run();
        return;
    }
    is_stopped_ = false;
    do {
        context_->restart();
        context_->poll();
    } while (!is_stopped_ && simulated_time_->advance() && !is_stopped_);
}

void IoThread::stop() {
    is_stopped_ = true;
    context_->stop();
}

std::chrono::steady_clock::time_point IoThread::now() const noexcept {
    return simulated_time_ == nullptr ? std::chrono::steady_clock::now() : simulated_time_->now();
}

void IoThread::post(std::function<void()> work) {
    boost::asio::post(*context_, std::move(work));
}

}  // namespace hvd::launch

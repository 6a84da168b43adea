// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/io_thread.hpp"

#include "launcher/net/asio.hpp"

#include <utility>

namespace hvd::launch {

// One thread runs the loop: the hint saves the locks that several would need.
IoThread::IoThread() : context_(std::make_unique<boost::asio::io_context>(1)) {}

IoThread::~IoThread() = default;

void IoThread::run() {
    context_->restart();
    context_->run();
}

void IoThread::stop() {
    context_->stop();
}

void IoThread::post(std::function<void()> work) {
    boost::asio::post(*context_, std::move(work));
}

}  // namespace hvd::launch

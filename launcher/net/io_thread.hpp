// SPDX-License-Identifier: Apache-2.0
//
// The launcher's one loop: everything that waits for a descriptor or for a time waits here.
#pragma once

#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace hvd::launch {

/// Owns the io_context. The thread that calls `run` is the io thread while it is in there; the
/// handlers that it calls must not block.
class IoThread final {
public:
    IoThread();
    ~IoThread();
    IoThread(const IoThread&) = delete;
    IoThread& operator=(const IoThread&) = delete;

    /// Calls handlers until `stop`, or until nothing is left to wait for. May be called again.
    void run();

    /// Makes `run` return after the current handler. Thread: io.
    void stop();

    /// Has `work` called by the io thread. Thread: any.
    void post(std::function<void()> work);

    [[nodiscard]] boost::asio::io_context& context() noexcept { return *context_; }

private:
    std::unique_ptr<boost::asio::io_context> context_;
};

}  // namespace hvd::launch

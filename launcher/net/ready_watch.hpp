// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <functional>
#include <memory>

namespace hvd::launch {

class IoThread;

/// Says when a socket can be read or written, for libraries that do the reading and writing. It
/// becomes non-blocking; nobody else may share its file description. Thread: io.
class ReadyWatch final {
public:
    ReadyWatch(IoThread& io, UniqueFd fd);
    ~ReadyWatch();
    ReadyWatch(const ReadyWatch&) = delete;
    ReadyWatch& operator=(const ReadyWatch&) = delete;

    /// Each calls once, also at an error, which the next system call then shows. Does nothing while
    /// the same wait is under way.
    void wait_readable(std::function<void()> ready);
    void wait_writable(std::function<void()> ready);

    [[nodiscard]] int fd() const noexcept;

private:
    struct State;

    // Shared with the waits under way, which outlive a watch that is destroyed meanwhile.
    std::shared_ptr<State> state_;
};

}  // namespace hvd::launch

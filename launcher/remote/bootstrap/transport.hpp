// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// A way to run one line of shell on a host: its standard input and output. To destroy it is to end
/// it at once; never from within its handlers. Thread: io.
class Transport {
public:
    struct Handlers {
        std::function<void()> on_linked;  // the line is being executed, as far as one can know
        std::function<void(std::span<const std::byte>)> on_bytes;

        /// Called once, last. The Error is in the transport's own words.
        std::function<void(std::optional<Error>)> on_end;
    };

    virtual ~Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    /// Begins to connect; calls the handlers from the loop.
    virtual void open(Handlers handlers) = 0;

    // As in AgentChannel.
    virtual void send(std::vector<std::byte> bytes) = 0;
    virtual void when_sent(std::function<void()> sent) = 0;
    virtual void close() = 0;

    /// As of AgentChannel, up to the link; from then on, who carries the streams.
    [[nodiscard]] virtual std::string progress() const = 0;

    /// After the end, where the line has failed: begins with another line, if
    /// there is one. The same handlers are called again.
    [[nodiscard]] virtual bool try_next_line() { return false; }

protected:
    Transport() = default;
};

}  // namespace hvd::launch

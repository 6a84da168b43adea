// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/descriptors.hpp"
#include "launcher/supervise/agents.hpp"

#include <cstddef>
#include <vector>

namespace hvd::launch {

class IoThread;

/// Carries horovodrun's standard input to the agents of the ranks that want it. Reads no more while
/// a megabyte is still on its way. Thread: io.
class InputPump final {
public:
    /// Throws Exception when the process is out of descriptors.
    InputPump(IoThread& io, Agents& agents, std::vector<std::size_t> hosts);

private:
    void listen();
    void read();
    void listen_when_sent(std::size_t position);

    Agents& agents_;
    std::vector<std::size_t> hosts_;
    ReadableWatch watch_;
};

}  // namespace hvd::launch

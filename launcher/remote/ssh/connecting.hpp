// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/net/ready_watch.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/ssh/name_lookup.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {
class IoThread;
}  // namespace hvd::launch

namespace hvd::launch::ssh {

/// Connects to the first of a host's addresses that answers. They are tried one after the other in
/// short steps and not in turn to the end (RFC 8305): one that is silent costs 250 ms. Thread: io.
class Connecting final {
public:
    static constexpr auto kStep = std::chrono::milliseconds(250);

    struct Connected {
        std::unique_ptr<ReadyWatch> socket;
        std::size_t address = 0;
    };

    /// `done` is called once, from the loop; it may not destroy this. Errors: unavailable, when
    /// every address has refused, with the words of each.
    Connecting(IoThread& io,
               std::vector<Address> addresses,
               std::function<void(Result<Connected>)> done);

private:
    struct Attempt {
        std::unique_ptr<ReadyWatch> socket;  // none: it has failed
        std::string reason;
    };

    void begin_next();
    [[nodiscard]] std::string begin(std::size_t index);
    void look(std::size_t index);
    void failed(std::size_t index, std::string reason);
    void finish(Result<Connected> result);

    IoThread& io_;
    std::vector<Address> addresses_;
    std::function<void(Result<Connected>)> done_;
    std::vector<Attempt> attempts_;
    Timer step_;
    Timer soon_;
    bool is_over_ = false;
};

}  // namespace hvd::launch::ssh

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"
#include "collectives/tcp/multiplexer.hpp"
#include "collectives/transport/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll::tcp {

/// The messages of one set, over what all sets share.
///
/// Thread: progress lock.
class TcpEndpoint {
public:
    /// `multiplexer` outlives it.
    TcpEndpoint(Multiplexer& multiplexer, const ProcessSet& set);
    ~TcpEndpoint();
    TcpEndpoint(const TcpEndpoint&) = delete;
    TcpEndpoint& operator=(const TcpEndpoint&) = delete;

    [[nodiscard]] int place() const noexcept { return place_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(pairs_.size()); }
    void send(int place, std::span<const std::byte> bytes);
    void recv(int place, std::span<std::byte> bytes);
    void post();
    [[nodiscard]] Result<bool> wait();
    [[nodiscard]] std::vector<int> missing() const;

    /// Every `wait` fails with the cause.
    void abort(const Error& cause) noexcept;

private:
    [[nodiscard]] Status check_unfinished() const;

    Multiplexer& multiplexer_;
    SetKey key_;
    int place_;
    std::vector<Pair*> pairs_;  // by place; none for the own one
    std::uint32_t step_ = 0;
    std::size_t left_ = 0;  // messages of the step that are not over
    std::optional<Error> cause_;
};

static_assert(Endpoint<TcpEndpoint>);

}  // namespace hvd::coll::tcp

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/timer.hpp"
#include "launcher/remote/bootstrap/transport.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch::ssh {

/// A transport, and a second one for hosts that the first cannot reach: when it ends with
/// Errc::unsupported before it has linked. Thread: io.
class FallbackTransport final : public Transport {
public:
    /// `make_second` gets the reason.
    FallbackTransport(IoThread& io,
                      std::unique_ptr<Transport> first,
                      std::function<std::unique_ptr<Transport>(const std::string&)> make_second);
    ~FallbackTransport() override;
    FallbackTransport(const FallbackTransport&) = delete;
    FallbackTransport& operator=(const FallbackTransport&) = delete;

    void open(Handlers handlers) override;

    // Bytes sent before the link would be lost with the first transport; no caller sends so early.
    void send(std::vector<std::byte> bytes) override { current_->send(std::move(bytes)); }
    void when_sent(std::function<void()> sent) override { current_->when_sent(std::move(sent)); }
    void close() override { current_->close(); }
    [[nodiscard]] std::string progress() const override { return current_->progress(); }
    [[nodiscard]] bool try_next_line() override { return current_->try_next_line(); }

private:
    Handlers handlers_;
    bool is_linked_ = false;
    Timer soon_;
    std::function<std::unique_ptr<Transport>(const std::string&)> make_second_;
    std::unique_ptr<Transport> current_;
};

}  // namespace hvd::launch::ssh

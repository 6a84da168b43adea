// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/timer.hpp"
#include "launcher/remote/bootstrap/agent_image.hpp"
#include "launcher/remote/bootstrap/filter.hpp"
#include "launcher/remote/bootstrap/semaphore.hpp"
#include "launcher/remote/bootstrap/transport.hpp"
#include "launcher/remote/starter.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The control stream of an agent that a transport's bootstrap line brings up. Nothing is sent
/// before the agent has spoken, except the agent itself when it is asked for.
class BootstrapChannel final : public AgentChannel {
public:
    struct Parts {
        std::unique_ptr<Transport> transport;
        std::shared_ptr<const AgentImage> image;  // shared: the starter may go before its channels
        std::shared_ptr<Semaphore> semaphore;
        std::chrono::milliseconds timeout{};           // for each sign of life, from the link on
        std::function<void(std::string)> banner;       // called with what the host printed besides
        std::function<void(std::string_view)> step{};  // called at each step up to the agent
    };

    BootstrapChannel(IoThread& io, Parts parts);
    ~BootstrapChannel() override;
    BootstrapChannel(const BootstrapChannel&) = delete;
    BootstrapChannel& operator=(const BootstrapChannel&) = delete;

    void open(Handlers handlers) override;
    void send(std::vector<std::byte> bytes) override;
    void when_sent(std::function<void()> sent) override;
    void close() override;
    [[nodiscard]] std::string progress() const override;

private:
    enum class State { waiting, linked, started, over };

    void begin();
    void receive(std::span<const std::byte> bytes);
    void start_stream(std::string first);
    void upload(std::size_t from);
    void expect_life();
    [[nodiscard]] std::string silence(std::chrono::milliseconds span) const;
    void enter(std::string_view step);
    void fail(Error error);
    void transport_ended(std::optional<Error> error);
    void end(std::optional<Error> error);

    std::shared_ptr<const AgentImage> image_;
    std::chrono::milliseconds timeout_;
    std::function<void(std::string)> tell_banner_;
    std::function<void(std::string_view)> tell_step_;  // may be empty
    bool has_begun_ = false;                           // it has had its turn
    Handlers handlers_;
    BootstrapFilter filter_;
    State state_ = State::waiting;
    std::chrono::steady_clock::time_point heard_at_;
    bool was_asked_for_agent_ = false;
    std::vector<std::vector<std::byte>> held_;
    std::vector<std::function<void()>> held_calls_;
    Timer silence_;
    Timer soon_;  // does from the loop what would destroy its caller
    Permit permit_;
    std::unique_ptr<Transport> transport_;
};

}  // namespace hvd::launch

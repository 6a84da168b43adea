// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/patient_starter.hpp"

#include "launcher/net/timer.hpp"

#include <utility>

namespace hvd::launch {
namespace {

class RefusedChannel final : public AgentChannel {
public:
    RefusedChannel(IoThread& io, Error error) : error_(std::move(error)), io_(io), soon_(io) {}

    void open(Handlers handlers) override {
        soon_.set(io_.in({}), [this, tell = std::move(handlers.on_end)] { tell(error_); });
    }
    void send(std::vector<std::byte> /*bytes*/) override {}
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override {}

private:
    Error error_;
    IoThread& io_;
    Timer soon_;
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> PatientStarter::start(const Host& host) {
    auto started = starter_.start(host);
    if (started) {
        return started;
    }
    std::unique_ptr<AgentChannel> refused =
        std::make_unique<RefusedChannel>(io_, std::move(started).error());
    return refused;
}

}  // namespace hvd::launch

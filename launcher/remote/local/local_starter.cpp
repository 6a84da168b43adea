// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/factory.hpp"
#include "launcher/remote/local/agent_process.hpp"
#include "launcher/remote/local/local_channel.hpp"

#include <memory>
#include <utility>

namespace hvd::launch {
namespace {

class LocalStarter final : public Starter {
public:
    LocalStarter(IoThread& io, StarterContext context) : io_(io), context_(std::move(context)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "local"; }

    [[nodiscard]] std::string way_to(const Host& /*host*/) const override {
        return "a child of horovodrun";
    }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& /*host*/) override {
        HVD_TRY(auto agent, spawn_agent(context_));
        return std::unique_ptr<AgentChannel>(std::make_unique<LocalChannel>(io_, std::move(agent)));
    }

private:
    IoThread& io_;
    StarterContext context_;
};

}  // namespace

std::unique_ptr<Starter> make_local_starter(IoThread& io, StarterContext context) {
    return std::make_unique<LocalStarter>(io, std::move(context));
}

}  // namespace hvd::launch

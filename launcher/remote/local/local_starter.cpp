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
    LocalStarter(IoThread& io, StarterContext context, EarlyAgentPtr early)
        : io_(io), context_(std::move(context)), early_(std::move(early)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "local"; }

    [[nodiscard]] std::string way_to(const Host& /*host*/) const override {
        return "a child of horovodrun";
    }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& /*host*/) override {
        auto agent = early_ ? early_->take() : std::nullopt;
        if (!agent) {
            HVD_TRY(auto started, spawn_agent(context_));
            agent.emplace(std::move(started));
        }
        return std::unique_ptr<AgentChannel>(
            std::make_unique<LocalChannel>(io_, *std::move(agent)));
    }

private:
    IoThread& io_;
    StarterContext context_;
    EarlyAgentPtr early_;
};

}  // namespace

void EndEarlyAgent::operator()(EarlyAgent* agent) const {
    std::default_delete<EarlyAgent>()(agent);
}

EarlyAgentPtr start_early_agent(std::span<char> command_line) {
    return EarlyAgentPtr(std::make_unique<EarlyAgent>(command_line).release());
}

std::unique_ptr<Starter> make_local_starter(IoThread& io,
                                            StarterContext context,
                                            EarlyAgentPtr early) {
    return std::make_unique<LocalStarter>(io, std::move(context), std::move(early));
}

}  // namespace hvd::launch

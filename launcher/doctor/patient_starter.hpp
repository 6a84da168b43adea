// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/io_thread.hpp"
#include "launcher/remote/starter.hpp"

#include <memory>
#include <string_view>

namespace hvd::launch {

/// A starter that never refuses: where another one does, its channel ends at once with that error,
/// so that the other hosts are reached all the same.
class PatientStarter final : public Starter {
public:
    PatientStarter(IoThread& io, Starter& starter) : io_(io), starter_(starter) {}

    [[nodiscard]] std::string_view name() const noexcept override { return starter_.name(); }
    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override;

private:
    IoThread& io_;
    Starter& starter_;
};

}  // namespace hvd::launch

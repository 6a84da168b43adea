// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/hosts/this_machine.hpp"
#include "launcher/remote/starter.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// The starters of a job's hosts as one: each host gets the one that its place asks for. Thread:
/// io.
class HostStarters final : public Starter {
public:
    /// `remote` may be null where every host is here.
    HostStarters(const std::vector<PlacedHost>& hosts,
                 std::unique_ptr<Starter> local,
                 std::unique_ptr<Starter> remote);

    [[nodiscard]] std::string_view name() const noexcept override { return "mixed"; }
    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override;

    /// The name of the starter of each host, in their order.
    [[nodiscard]] std::vector<std::string> names() const;

private:
    [[nodiscard]] Starter& starter_of(const PlacedHost& placed) const noexcept;

    std::vector<PlacedHost> hosts_;
    std::unique_ptr<Starter> local_;
    std::unique_ptr<Starter> remote_;
};

}  // namespace hvd::launch

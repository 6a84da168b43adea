// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/direct.hpp"

#include "collectives/base/env.hpp"
#include "launcher/remote/ssh/fallback_transport.hpp"
#include "launcher/remote/ssh/ssh_transport.hpp"
#include "launcher/remote/ssh/target.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace hvd::launch::ssh {
namespace {

class LibsshDirect final : public DirectSsh {
public:
    explicit LibsshDirect(IoThread& io)
        : io_(io),
          environment_(current_environment()),
          me_(local_user(environment_)),
          keys_(std::make_shared<KeyRing>(io)) {}

    [[nodiscard]] std::unique_ptr<Transport> make_transport(const Host& host,
                                                            const SshTask& task,
                                                            Lines lines,
                                                            MakeOther make_other) override {
        auto target = make_target(host, task, me_, environment_, known_hosts_);
        if (const auto* other = std::get_if<UseSystemSsh>(&target)) {
            return make_other(other->reason);
        }
        auto& found = std::get<SshTarget>(target);
        auto own = std::make_unique<SshTransport>(io_, std::move(found), keys_, std::move(lines));
        if (task.on_step) {
            own->tell_steps([tell = task.on_step, name = host.name](std::string_view step) {
                tell(name, step);
            });
        }
        return std::make_unique<FallbackTransport>(io_, std::move(own), std::move(make_other));
    }

    [[nodiscard]] std::string describe(const Host& host, const SshTask& task) override {
        const auto target = make_target(host, task, me_, environment_, known_hosts_);
        const auto* found = std::get_if<SshTarget>(&target);
        return found == nullptr
                   ? std::get<UseSystemSsh>(target).reason
                   : found->user + "@" + found->name + " port " + std::to_string(found->port);
    }

private:
    IoThread& io_;
    Environment environment_;
    LocalUser me_;
    KnownHostsFiles known_hosts_;
    std::shared_ptr<KeyRing> keys_;  // shared with the transports, which may outlive this
};

}  // namespace

std::unique_ptr<DirectSsh> make_direct_ssh(IoThread& io) {
    return std::make_unique<LibsshDirect>(io);
}

}  // namespace hvd::launch::ssh

// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/direct.hpp"

#include "collectives/base/env.hpp"
#include "launcher/remote/ssh/fallback_transport.hpp"
#include "launcher/remote/ssh/hosts_file.hpp"
#include "launcher/remote/ssh/ssh_transport.hpp"
#include "launcher/remote/ssh/target.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace hvd::launch::ssh {
namespace {

class LibsshDirect final : public DirectSsh {
public:
    LibsshDirect(IoThread& io, const sigset_t& signal_mask)
        : io_(io),
          signal_mask_(signal_mask),
          environment_(current_environment()),
          me_(local_user(environment_)),
          hosts_file_(read_hosts_file()),
          keys_(std::make_shared<KeyRing>(io)) {}

    [[nodiscard]] std::unique_ptr<Transport> make_transport(const Host& host,
                                                            const SshOptions& options,
                                                            Lines lines,
                                                            MakeOther make_other) override {
        auto target = make_target(host, options, me_, environment_, known_hosts_);
        if (const auto* other = std::get_if<UseSystemSsh>(&target)) {
            return make_other(other->reason);
        }
        auto& found = std::get<SshTarget>(target);
        found.address = hosts_file_.find(found.name);
        auto own = std::make_unique<SshTransport>(io_, std::move(found), keys_, std::move(lines),
                                                  signal_mask_);
        if (options.on_step) {
            own->tell_steps([tell = options.on_step, name = host.name](std::string_view step) {
                tell(name, step);
            });
        }
        return std::make_unique<FallbackTransport>(io_, std::move(own), std::move(make_other));
    }

    [[nodiscard]] std::string describe(const Host& host, const SshOptions& options) override {
        const auto target = make_target(host, options, me_, environment_, known_hosts_);
        const auto* found = std::get_if<SshTarget>(&target);
        return found == nullptr
                   ? std::get<UseSystemSsh>(target).reason
                   : found->user + "@" + found->name + " port " + std::to_string(found->port);
    }

private:
    IoThread& io_;
    sigset_t signal_mask_;
    Environment environment_;
    LocalUser me_;
    HostsFile hosts_file_;
    KnownHostsFiles known_hosts_;
    std::shared_ptr<KeyRing> keys_;  // shared with the transports, which may outlive this
};

}  // namespace

std::unique_ptr<DirectSsh> make_direct_ssh(IoThread& io, const sigset_t& signal_mask) {
    return std::make_unique<LibsshDirect>(io, signal_mask);
}

}  // namespace hvd::launch::ssh

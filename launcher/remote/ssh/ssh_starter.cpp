// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/bootstrap/agent_image.hpp"
#include "launcher/remote/bootstrap/channel.hpp"
#include "launcher/remote/bootstrap/line.hpp"
#include "launcher/remote/command/command_transport.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <sys/resource.h>

namespace hvd::launch {
namespace {

/// A connection through a program holds three pipes and a handle of the process.
constexpr rlim_t kDescriptorsPerHost = 4;
constexpr rlim_t kOwnDescriptors = 64;

/// Raises the limit of open files as far as it goes. Gives the number of hosts that it allows.
std::size_t raise_open_files() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return 1;
    }
    if (files.rlim_cur < files.rlim_max) {
        const rlimit raised{.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
        if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            files = raised;
        }
    }
    const auto usable = files.rlim_cur - std::min(files.rlim_cur, kOwnDescriptors);
    return std::max<std::size_t>(usable / kDescriptorsPerHost, 1);
}

class SshStarter final : public Starter {
public:
    SshStarter(IoThread& io, const StarterContext& context, SshOptions options, AgentImage image)
        : io_(io),
          signal_mask_(context.signal_mask),
          options_(std::move(options)),
          image_(std::make_shared<const AgentImage>(std::move(image))),
          turnstile_(std::make_shared<Turnstile>(
              std::min<std::size_t>(static_cast<std::size_t>(std::max(options_.concurrency, 1)),
                                    raise_open_files()))),
          line_(to_command({.build_id = image_->build_id,
                            .cache_key = image_->cache_key,
                            .bytes = image_->file.size(),
                            .machine = image_->machine,
                            .wrap = options_.wrap})) {}

    [[nodiscard]] std::string_view name() const noexcept override {
        return options_.remote_shell ? "remote shell" : "ssh";
    }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        auto transport = std::make_unique<CommandTransport>(io_, remote_argv(host, options_, line_),
                                                            signal_mask_);
        return std::unique_ptr<AgentChannel>(std::make_unique<BootstrapChannel>(
            io_, BootstrapChannel::Parts{
                     .transport = std::move(transport),
                     .image = image_,
                     .turnstile = turnstile_,
                     .patience = 2 * options_.connect_timeout,  // ssh connects in it, and starts
                     .banner = banner_note(host)}));
    }

private:
    [[nodiscard]] std::function<void(std::string)> banner_note(const Host& host) const {
        return [note = options_.note, name = host.name](const std::string& banner) {
            if (note) {
                note(name, "printed at its login: " + banner);
            }
        };
    }

    IoThread& io_;
    sigset_t signal_mask_;
    SshOptions options_;
    std::shared_ptr<const AgentImage> image_;  // shared with the channels, which may outlive this
    std::shared_ptr<Turnstile> turnstile_;
    std::string line_;
};

}  // namespace

Result<std::unique_ptr<Starter>> make_ssh_starter(IoThread& io,
                                                  const StarterContext& context,
                                                  SshOptions options) {
    auto path = find_agent_file(context);
    if (!path) {
        return std::move(path).error().context("no agent to send to other hosts");
    }
    HVD_TRY(auto image, load_agent_image(*path, wire::build_id()));
    return std::unique_ptr<Starter>(
        std::make_unique<SshStarter>(io, context, std::move(options), std::move(image)));
}

}  // namespace hvd::launch

// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/bootstrap/agent_image.hpp"
#include "launcher/remote/bootstrap/channel.hpp"
#include "launcher/remote/bootstrap/line.hpp"
#include "launcher/remote/command/command_transport.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/remote/open_files.hpp"
#include "launcher/remote/ssh/direct.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace hvd::launch {
namespace {

/// A connection through a program holds three pipes and a handle of the process.
constexpr rlim_t kDescriptorsPerHost = 4;
constexpr rlim_t kOwnDescriptors = 64;

/// How many hosts the limit of open files allows, once it is raised.
std::size_t possible_hosts() {
    const auto limit = raise_open_files();
    const auto usable = limit - std::min(limit, kOwnDescriptors);
    return std::max<std::size_t>(usable / kDescriptorsPerHost, 1);
}

/// A step ends before the whole start does. What a program does in a step of its own (ssh connects)
/// ends before that.
void limit_steps(SshOptions& options, std::chrono::milliseconds start_timeout) {
    options.connect_timeout = std::min(options.connect_timeout, start_timeout * 2 / 3);
    options.answer_timeout = std::min(options.answer_timeout, start_timeout * 5 / 6);
}

/// What an SshStarter and the transports that it made share; they may outlive it.
struct Shared {
    explicit Shared(SshOptions given) : options(std::move(given)) {}

    /// Says each thing once, with the first host that it is about.
    void say_once(const std::string& host, const std::string& sentence) {
        if (options.note && said.insert(sentence).second) {
            options.note(host, sentence);
        }
    }

    SshOptions options;
    std::set<std::string> said;
};

class SshStarter final : public Starter {
public:
    SshStarter(IoThread& io, const StarterContext& context, SshOptions options, AgentImage image)
        : io_(io),
          signal_mask_(context.signal_mask),
          shared_(std::make_shared<Shared>(std::move(options))),
          image_(std::make_shared<const AgentImage>(std::move(image))),
          turnstile_(std::make_shared<Turnstile>(
              std::min(static_cast<std::size_t>(std::max(shared_->options.concurrency, 1)),
                       possible_hosts()))),
          bootstrap_({.build_id = image_->build_id,
                      .cache_key = image_->cache_key,
                      .bytes = image_->file.size(),
                      .machine = image_->machine,
                      .wrap = shared_->options.wrap}),
          line_(to_command(bootstrap_)),
          direct_(ssh::make_direct_ssh(io, context.signal_mask)) {}

    [[nodiscard]] std::string_view name() const noexcept override {
        return shared_->options.remote_shell ? "remote shell" : "ssh";
    }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        BootstrapChannel::Parts parts{.transport = make_transport(host),
                                      .image = image_,
                                      .turnstile = turnstile_,
                                      .patience = shared_->options.answer_timeout,
                                      .banner = banner_note(host),
                                      .step = step_note(host)};
        std::unique_ptr<AgentChannel> channel =
            std::make_unique<BootstrapChannel>(io_, std::move(parts));
        return channel;
        // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the Result owns it
    }

private:
    [[nodiscard]] std::unique_ptr<Transport> make_transport(const Host& host) {
        auto through_program = [&io = io_, shared = shared_, line = line_, mask = signal_mask_,
                                host](const std::string& reason) -> std::unique_ptr<Transport> {
            if (!reason.empty()) {
                shared->say_once(host.name, "reached through the system's ssh, because " + reason);
            }
            auto argv = remote_argv(host, shared->options, line);
            if (shared->options.on_step) {
                shared->options.on_step(host.name, "through " + argv.front());
            }
            return std::make_unique<CommandTransport>(io, std::move(argv), mask);
        };
        if (shared_->options.remote_shell || !direct_) {
            return through_program("");
        }
        ssh::DirectSsh::Lines lines{line_};
        if (auto quick = to_quick_command(bootstrap_); !quick.empty()) {
            lines.insert(lines.begin(), std::move(quick));
        }
        return direct_->make_transport(host, shared_->options, std::move(lines), through_program);
    }

    [[nodiscard]] std::function<void(std::string)> banner_note(const Host& host) const {
        return [shared = shared_, name = host.name](const std::string& banner) {
            shared->say_once(name, "printed at its login: " + banner);
        };
    }

    /// Empty where nobody wants to know.
    [[nodiscard]] std::function<void(std::string_view)> step_note(const Host& host) const {
        if (!shared_->options.on_step) {
            return {};
        }
        return [shared = shared_, name = host.name](std::string_view step) {
            shared->options.on_step(name, step);
        };
    }

    IoThread& io_;
    sigset_t signal_mask_;
    std::shared_ptr<Shared> shared_;
    std::shared_ptr<const AgentImage> image_;
    std::shared_ptr<Turnstile> turnstile_;
    BootstrapLine bootstrap_;
    std::string line_;
    std::unique_ptr<ssh::DirectSsh> direct_;
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
    options.on_step = context.on_step;
    limit_steps(options, context.start_timeout);
    return std::unique_ptr<Starter>(
        std::make_unique<SshStarter>(io, context, std::move(options), std::move(image)));
}

}  // namespace hvd::launch

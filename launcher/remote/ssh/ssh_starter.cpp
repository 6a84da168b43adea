// SPDX-License-Identifier: Apache-2.0
#include "launcher/net/timer.hpp"
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
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace hvd::launch {
namespace {

/// A job has each name and port once.
std::string key_of(const Host& host) {
    return host.name + (host.port ? " " + std::to_string(*host.port) : "");
}

/// A step has less time than the whole start. A step inside a program (ssh connects)
/// has less than that.
void limit_steps(SshTask& task, std::chrono::milliseconds start_timeout) {
    task.connect_timeout = std::min(task.connect_timeout, start_timeout * 2 / 3);
    task.answer_timeout = std::min(task.answer_timeout, start_timeout * 5 / 6);
}

/// One that says at once why it cannot be.
class RefusedTransport final : public Transport {
public:
    RefusedTransport(IoThread& io, Error error) : soon_(io), error_(std::move(error)) {}

    void open(Handlers handlers) override {
        soon_.set(Deadline::in(std::chrono::milliseconds(0)),
                  [this, end = std::move(handlers.on_end)] { end(error_); });
    }
    void send(std::vector<std::byte> /*bytes*/) override {}
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override {}
    [[nodiscard]] std::string progress() const override { return "no file can be opened"; }

private:
    Timer soon_;
    Error error_;
};

/// The state that an SshStarter shares with its transports; they may outlive it.
struct Shared {
    Shared(SshTask given, rlim_t limit)
        : task(std::move(given)), files({.limit = limit, .hosts = task.hosts}) {}

    /// Says each thing once, with the first host that it is about.
    void say_once(const std::string& host, const std::string& sentence) {
        if (task.note && said.insert(sentence).second) {
            task.note(host, sentence);
        }
    }

    /// Whether there is room for a program that reaches a host.
    [[nodiscard]] Status add_program(const Host& host, const std::vector<std::string>& argv) {
        commands[key_of(host)] = show_command(argv);
        files.programs = commands.size();
        files.hosts = std::max(files.hosts, files.programs);
        return check_room(files, argv.front());
    }

    SshTask task;
    std::set<std::string> said;
    std::map<std::string, std::string> commands;  // by host, of those reached through a program
    FileBudget files;
};

class SshStarter final : public Starter {
public:
    SshStarter(IoThread& io,
               const StarterContext& context,
               SshTask task,
               const FileBudget& files,
               AgentImage image)
        : io_(io),
          signal_mask_(context.signal_mask),
          shared_(std::make_shared<Shared>(std::move(task), files.limit)),
          image_(std::make_shared<const AgentImage>(std::move(image))),
          semaphore_(std::make_shared<Semaphore>(
              std::min(static_cast<std::size_t>(std::max(shared_->task.options.concurrency, 1)),
                       starts_at_a_time(files)))),
          bootstrap_({.build_id = image_->build_id,
                      .cache_key = image_->cache_key,
                      .bytes = image_->file.size(),
                      .machine = image_->machine,
                      .wrap = shared_->task.options.wrap}),
          line_(to_command(bootstrap_)),
          direct_(ssh::make_direct_ssh(io)) {}

    [[nodiscard]] std::string_view name() const noexcept override {
        return shared_->task.options.remote_shell.empty() ? "ssh" : "remote shell";
    }

    [[nodiscard]] std::string way_to(const Host& host) const override {
        const auto found = shared_->commands.find(key_of(host));
        if (found != shared_->commands.end()) {
            return found->second;
        }
        const auto quick = to_quick_command(bootstrap_);
        return "libssh2 to " + direct_->describe(host, shared_->task) + ": " +
               (quick.empty() ? show_command({line_}) : quick + ", else a line of sh brings it");
    }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        BootstrapChannel::Parts parts{.transport = make_transport(host),
                                      .image = image_,
                                      .semaphore = semaphore_,
                                      .timeout = shared_->task.answer_timeout,
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
            auto argv = remote_argv(host, shared->task, line);
            if (auto room = shared->add_program(host, argv); !room) {
                return std::make_unique<RefusedTransport>(io, std::move(room).error());
            }
            if (shared->task.on_step) {
                shared->task.on_step(host.name, "through " + argv.front());
            }
            return std::make_unique<CommandTransport>(io, std::move(argv), mask);
        };
        if (!shared_->task.options.remote_shell.empty() || !direct_) {
            return through_program("");
        }
        ssh::DirectSsh::Lines lines{line_};
        if (auto quick = to_quick_command(bootstrap_); !quick.empty()) {
            lines.insert(lines.begin(), std::move(quick));
        }
        return direct_->make_transport(host, shared_->task, std::move(lines), through_program);
    }

    [[nodiscard]] std::function<void(std::string)> banner_note(const Host& host) const {
        return [shared = shared_, name = host.name](const std::string& banner) {
            shared->say_once(name, "printed at its login: " + banner);
        };
    }

    /// Empty where nobody wants to know.
    [[nodiscard]] std::function<void(std::string_view)> step_note(const Host& host) const {
        if (!shared_->task.on_step) {
            return {};
        }
        return [shared = shared_, name = host.name](std::string_view step) {
            shared->task.on_step(name, step);
        };
    }

    IoThread& io_;
    sigset_t signal_mask_;
    std::shared_ptr<Shared> shared_;
    std::shared_ptr<const AgentImage> image_;
    std::shared_ptr<Semaphore> semaphore_;
    BootstrapLine bootstrap_;
    std::string line_;
    std::unique_ptr<ssh::DirectSsh> direct_;
};

}  // namespace

Result<std::unique_ptr<Starter>> make_ssh_starter(IoThread& io,
                                                  const StarterContext& context,
                                                  SshTask task) {
    auto path = find_agent_file(context);
    if (!path) {
        return std::move(path).error().context("no agent to send to other hosts");
    }
    HVD_TRY(auto image, load_agent_image(*path, wire::build_id()));
    task.on_step = context.on_step;
    limit_steps(task, context.start_timeout);
    FileBudget files{.limit = raise_open_files(), .hosts = task.hosts};
    const auto& shell = task.options.remote_shell;
    if (!shell.empty()) {
        files.programs = task.hosts;
    }
    HVD_TRY_STATUS(check_room(files, shell.empty() ? "ssh" : shell.front()));
    return std::unique_ptr<Starter>(
        std::make_unique<SshStarter>(io, context, std::move(task), files, std::move(image)));
}

}  // namespace hvd::launch

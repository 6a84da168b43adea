// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/orphan_cleanup.hpp"

#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace hvd::launch {

void OrphanCleanup::clean_up(const Host& host,
                             const std::string& job_id,
                             std::chrono::seconds timeout) {
    auto channel = starter_.start(host);
    if (!channel) {
        unswept_.push_back({.host = host.name, .why = std::move(channel).error().message});
        return;
    }
    auto& cleanup = cleanups_.emplace_back(io_);
    cleanup.host = host.name;
    cleanup.channel = std::move(channel).value();
    cleanup.limit.set(io_.in(timeout), [this, &cleanup, timeout] {
        const auto known = cleanup.channel->progress();
        cleanup.channel.reset();
        give_up(cleanup, "it did not answer within " + std::to_string(timeout.count()) + " s" +
                             (known.empty() ? "" : " (" + known + ")"));
    });
    cleanup.channel->open(
        {.on_bytes = [this, &cleanup, job_id](
                         std::span<const std::byte> bytes) { receive(cleanup, job_id, bytes); },
         .on_end =
             [this, &cleanup](const std::optional<Error>& error) {
                 give_up(cleanup, error ? error->message : "its new agent ended without a word");
             }});
}

bool OrphanCleanup::is_idle() const noexcept {
    return std::ranges::all_of(cleanups_, &HostCleanup::is_over);
}

void OrphanCleanup::receive(HostCleanup& cleanup,
                            const std::string& job_id,
                            std::span<const std::byte> bytes) {
    cleanup.reader.feed(bytes);
    while (!cleanup.is_over) {
        auto message = cleanup.reader.next();
        if (!message) {
            cleanup.channel->close();
            give_up(cleanup, std::move(message).error().message);
            return;
        }
        if (!*message) {
            return;
        }
        if (std::holds_alternative<wire::Facts>(**message)) {
            ask(cleanup, job_id);
        } else if (const auto* gone = std::get_if<wire::AllGone>(&**message)) {
            for (const auto& survivor : gone->survivors) {
                survivors_.push_back({.host = cleanup.host, .process = survivor});
            }
            cleanup.channel->close();  // it ends by itself, and leaves nothing
            finish(cleanup);
        }
    }
}

/// A job without ranks, to be killed at once: both in one piece, or the agent is done between them.
void OrphanCleanup::ask(HostCleanup& cleanup, const std::string& job_id) {
    if (std::exchange(cleanup.has_asked, true)) {
        return;
    }
    JobPlan job;
    job.id = job_id;
    HostPlan plan;
    plan.host = cleanup.host;
    plan.agent_socket = "hvd-sweep-" + job_id;
    const auto* magic = reinterpret_cast<const std::byte*>(wire::kMagic.data());
    std::vector<std::byte> bytes(magic, magic + wire::kMagic.size());
    for (const auto& message :
         {wire::ToAgent(wire::Start{.job = std::move(job), .plan = std::move(plan)}),
          wire::ToAgent(wire::Stop{.grace_ms = 0})}) {
        const auto frame = wire::encode(message);
        bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    cleanup.channel->send(std::move(bytes));
}

void OrphanCleanup::give_up(HostCleanup& cleanup, std::string why) {
    if (!cleanup.is_over) {
        unswept_.push_back({.host = cleanup.host, .why = std::move(why)});
        finish(cleanup);
    }
}

void OrphanCleanup::finish(HostCleanup& cleanup) {
    if (!std::exchange(cleanup.is_over, true)) {
        cleanup.limit.cancel();
        changed_();
    }
}

}  // namespace hvd::launch

// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/sweeper.hpp"

#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace hvd::launch {

void Sweeper::sweep(const Host& host, const std::string& job_id, std::chrono::seconds patience) {
    auto channel = starter_.start(host);
    if (!channel) {
        unswept_.push_back({.host = host.name, .why = std::move(channel).error().message});
        return;
    }
    auto& broom = brooms_.emplace_back(io_);
    broom.host = host.name;
    broom.channel = std::move(channel).value();
    broom.limit.set(io_.in(patience), [this, &broom, patience] {
        const auto known = broom.channel->progress();
        broom.channel.reset();
        give_up(broom, "it did not answer within " + std::to_string(patience.count()) + " s" +
                           (known.empty() ? "" : " (" + known + ")"));
    });
    broom.channel->open(
        {.on_bytes = [this, &broom,
                      job_id](std::span<const std::byte> bytes) { receive(broom, job_id, bytes); },
         .on_end =
             [this, &broom](const std::optional<Error>& error) {
                 give_up(broom, error ? error->message : "its new agent ended without a word");
             }});
}

bool Sweeper::is_idle() const noexcept {
    return std::ranges::all_of(brooms_, &Broom::is_over);
}

void Sweeper::receive(Broom& broom, const std::string& job_id, std::span<const std::byte> bytes) {
    broom.reader.feed(bytes);
    while (!broom.is_over) {
        auto message = broom.reader.next();
        if (!message) {
            broom.channel->close();
            give_up(broom, std::move(message).error().message);
            return;
        }
        if (!*message) {
            return;
        }
        if (std::holds_alternative<wire::Facts>(**message)) {
            ask(broom, job_id);
        } else if (const auto* gone = std::get_if<wire::AllGone>(&**message)) {
            for (const auto& survivor : gone->survivors) {
                survivors_.push_back({.host = broom.host, .process = survivor});
            }
            broom.channel->close();  // it ends by itself, and leaves nothing
            finish(broom);
        }
    }
}

/// A job without ranks, to be killed at once: both in one piece, or the agent is done between them.
void Sweeper::ask(Broom& broom, const std::string& job_id) {
    if (std::exchange(broom.has_asked, true)) {
        return;
    }
    JobPlan job;
    job.id = job_id;
    HostPlan plan;
    plan.host = broom.host;
    plan.agent_socket = "hvd-sweep-" + job_id;
    const auto* magic = reinterpret_cast<const std::byte*>(wire::kMagic.data());
    std::vector<std::byte> bytes(magic, magic + wire::kMagic.size());
    for (const auto& message :
         {wire::ToAgent(wire::Start{.job = std::move(job), .plan = std::move(plan)}),
          wire::ToAgent(wire::Stop{.grace_ms = 0})}) {
        const auto frame = wire::encode(message);
        bytes.insert(bytes.end(), frame.begin(), frame.end());
    }
    broom.channel->send(std::move(bytes));
}

void Sweeper::give_up(Broom& broom, std::string why) {
    if (!broom.is_over) {
        unswept_.push_back({.host = broom.host, .why = std::move(why)});
        finish(broom);
    }
}

void Sweeper::finish(Broom& broom) {
    if (!std::exchange(broom.is_over, true)) {
        broom.limit.cancel();
        changed_();
    }
}

}  // namespace hvd::launch

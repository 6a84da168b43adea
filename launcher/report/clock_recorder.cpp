// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/clock_recorder.hpp"

#include "collectives/base/steady_clock_id.hpp"
#include "launcher/output/reserved_file.hpp"
#include "launcher/output/start_thread.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

namespace hvd::launch {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(500);
constexpr auto kLongestPause = std::chrono::milliseconds(60'000);

template <class Clock>
std::int64_t ns_of(std::chrono::time_point<Clock> time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// As the rank will find it; empty where it will find none.
std::string folder_of(const LaunchPlan& plan, const HostPlan& host, const ProcessSpec& rank) {
    constexpr std::string_view kVariable = "HOROVOD_TIMELINE_ALL";
    for (const auto& environment :
         {added_environment(plan.job, host, rank), common_environment(plan.job, host)}) {
        if (auto value = find(environment, kVariable)) {
            return *std::move(value);
        }
    }
    return {};
}

/// Errors: invalid_argument.
Status replace_file(const std::filesystem::path& file, const std::string& text) {
    std::error_code ignored;  // the next step reports what is missing
    std::filesystem::create_directories(file.parent_path(), ignored);
    HVD_TRY(auto whole, ReservedFile::reserve(file, "--timeline-all"));
    return whole.write(text);
}

}  // namespace

std::unique_ptr<ClockRecorder> ClockRecorder::watch(AgentFleet& fleet, const LaunchPlan& plan) {
    const auto has_ranks = [](const HostPlan& host) { return !host.ranks.empty(); };
    const auto host = std::ranges::find_if(plan.hosts, has_ranks);
    if (host == plan.hosts.end() || std::ranges::count_if(plan.hosts, has_ranks) == 1) {
        return nullptr;
    }
    const auto& rank = host->ranks.front();
    const auto folder = folder_of(plan, *host, rank);
    if (folder.empty()) {
        return nullptr;
    }
    auto recorder = std::make_unique<ClockRecorder>(
        plan, std::filesystem::path(cwd_of(plan.job, rank)) / folder / kHostClocksFile);
    fleet.watch_clocks([self = recorder.get()](std::size_t each, const auto& sample, auto now) {
        self->add(each, sample, now);
    });
    return recorder;
}

ClockRecorder::ClockRecorder(const LaunchPlan& plan, std::filesystem::path file)
    : plan_(plan),
      file_(std::move(file)),
      histories_(plan.hosts.size()),
      pause_(kFirstPause),
      writer_(start_thread([this](const std::stop_token& stop) { write(stop); })) {}

ClockRecorder::~ClockRecorder() = default;

void ClockRecorder::add(std::size_t host, const ClockOffset::Sample& sample, TimePoint now) {
    if (host >= histories_.size()) {
        return;  // an agent without ranks
    }
    histories_[host].add({.at_ns = ns_of(now),
                          .ahead_ns = sample.ahead_ns,
                          .error_ns = (sample.round_trip_ns + 1) / 2});
    if (!next_write_) {
        next_write_ = now + pause_;
    }
    if (now >= *next_write_) {
        pause_ = std::min(2 * pause_, kLongestPause);
        next_write_ = now + pause_;
        hand_over();
    }
}

void ClockRecorder::finish(const Say& say) {
    hand_over();
    writer_.request_stop();
    writer_.join();
    const std::lock_guard lock(mutex_);
    if (error_) {
        say(error_->message +
            ": `horovodrun timeline` will align the clocks of the hosts by their wall clocks");
    }
}

std::string ClockRecorder::text() const {
    HostClocks clocks{.job = plan_.job.id,
                      .clock = steady_clock_id(),
                      .steady_ns = ns_of(std::chrono::steady_clock::now()),
                      .wall_ns = ns_of(std::chrono::system_clock::now())};
    for (std::size_t host = 0; host < histories_.size(); ++host) {
        const auto& plan = plan_.hosts[host];
        HostClock clock{.host = plan.host, .samples = histories_[host].samples()};
        std::ranges::transform(plan.ranks, std::back_inserter(clock.ranks), &ProcessSpec::rank);
        std::ranges::sort(clock.ranks);
        clocks.hosts.push_back(std::move(clock));
    }
    return to_json(clocks);
}

void ClockRecorder::hand_over() {
    {
        const std::lock_guard lock(mutex_);
        text_ = text();
    }
    filled_.notify_one();
}

// ---- the writer's thread ----

void ClockRecorder::write(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
        (void)filled_.wait(lock, stop, [&] { return text_.has_value(); });
        if (!text_) {
            return;
        }
        const auto text = *std::exchange(text_, std::nullopt);
        lock.unlock();
        const auto written = replace_file(file_, text);
        lock.lock();
        error_ = written ? std::nullopt : std::optional(written.error());
    }
}

}  // namespace hvd::launch

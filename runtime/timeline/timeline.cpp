// SPDX-License-Identifier: Apache-2.0
#include "runtime/timeline/timeline.hpp"

#include "collectives/base/steady_clock_id.hpp"

#include <algorithm>
#include <utility>

#include <pthread.h>

namespace hvd::rt {
namespace {

// Events that come within this time are one write.
constexpr std::chrono::milliseconds kLinger{50};

// Below it no further operation is taken in: those that have begun still fit.
constexpr std::size_t kReserve = 4;  // the capacity divided by it

constexpr std::size_t kMostText = std::size_t{1} << 20;  // in one write

std::string upper(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return out;
}

bool is_adasum(const Signature& signature) noexcept {
    return signature.op == coll::Op::allreduce && coll::is_adasum(signature.reduce);
}

std::string operation_of(const Signature& signature) {
    switch (signature.kind) {
        case Kind::join: return "JOIN";
        case Kind::add_process_set: return "ADD_PROCESS_SET";
        case Kind::remove_process_set: return "REMOVE_PROCESS_SET";
        case Kind::collective: break;
    }
    return is_adasum(signature) ? "ADASUM" : upper(to_string(signature.op));
}

/// The original's name of the collective of a backend.
std::string activity_of(const Signature& signature, std::string_view backend) {
    std::string name = upper(backend) + "_";
    if (is_adasum(signature)) {
        return name + "ADASUM_ALLREDUCE";
    }
    const bool is_broadcast = signature.op == coll::Op::broadcast;
    return name + (is_broadcast ? "BCAST" : upper(to_string(signature.op)));
}

std::string about(const Signature& signature) {
    if (!has_tensor(signature)) {
        return {};
    }
    return R"({"dtype": ")" + std::string(to_string(signature.type)) + R"(", "shape": ")" +
           shortened(describe(signature.shape)) + "\"}";
}

template <class Clock>
std::chrono::microseconds micros_of(std::chrono::time_point<Clock> time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch());
}

}  // namespace

Result<std::unique_ptr<Timeline>> Timeline::start(Options options) {
    HVD_TRY(auto file, TraceFile::create(options.path));
    std::unique_ptr<Timeline> timeline(new Timeline(std::move(options), std::move(file)));
    std::string first;
    append_json(timeline->options_.origin, first);
    HVD_TRY_STATUS(timeline->file_.append(first));
    timeline->writer_ =
        std::jthread([self = timeline.get()](const std::stop_token& stop) { self->write(stop); });
    return timeline;
}

Timeline::Timeline(Options options, TraceFile file)
    : options_(std::move(options)),
      file_(std::move(file)),
      start_(Clock::now()),
      queue_(options_.capacity) {
    options_.origin.wall = micros_of(std::chrono::system_clock::now());
    options_.origin.monotonic = micros_of(start_);
    options_.origin.clock = steady_clock_id();
}

Timeline::~Timeline() {
    if (writer_.joinable()) {
        writer_.request_stop();
        writer_.join();
    }
    if (lost_ != 0 && !has_failed_) {
        append_json({.kind = TraceEvent::Kind::lost, .number = lost_, .time = now()}, text_);
        (void)file_.append(text_);
    }
}

// ---- what the engine does -----------------------------------------------------------------------

Timeline::Row& Timeline::row_of(int process_set, std::string_view name) {
    key_.assign(name);
    if (process_set != 0) {
        key_ += " (process set " + std::to_string(process_set) + ")";
    }
    auto found = rows_.find(key_);
    if (found == rows_.end()) {
        found = rows_.emplace(key_, Row{}).first;
    }
    Row& row = found->second;
    // Named when its first event is taken in.
    if (row.number == 0 && queue_.room() > options_.capacity / kReserve) {
        row.number = ++last_row_;
        push({.kind = TraceEvent::Kind::tensor, .row = row.number, .text = key_});
    }
    return row;
}

void Timeline::on(Moment moment, std::span<Operation* const> operations, std::string_view backend) {
    time_ = now();
    for (Operation* first : operations) {
        // Ranks agree about groups, by their leaders; collectives run for single tensors.
        const bool is_group = moment == Moment::submitted || moment == Moment::agreed;
        for (Operation* each = first; each != nullptr; each = is_group ? each->next : nullptr) {
            if (each->name != nullptr) {
                auto& row = row_of(each->process_set, each->name->text);
                advance(row, moment, *each, backend);
            }
        }
    }
    wake_writer();
}

void Timeline::begin_negotiation(Row& row, std::string_view operation) {
    if (row.is_negotiating || row.depth != 0) {
        return;
    }
    row.is_left_out = row.number == 0 || queue_.room() <= options_.capacity / kReserve;
    lost_ += row.is_left_out ? 1 : 0;
    row.is_negotiating = true;
    begin(row, "NEGOTIATE_" + std::string(operation));
}

void Timeline::advance(Row& row,
                       Moment moment,
                       const Operation& operation,
                       std::string_view backend) {
    const auto name = operation_of(operation.signature);
    if (moment == Moment::submitted) {
        begin_negotiation(row, name);
        return;
    }
    if (moment == Moment::agreed) {
        begin_negotiation(row, name);  // where the trace began meanwhile
        end(row);
        row.is_negotiating = false;
        begin(row, name);
        begin(row, "QUEUE");
        return;
    }
    if (row.depth == 0) {
        return;  // it was under way when the trace began
    }
    if (moment == Moment::ended) {
        while (row.depth > 0) {
            end(row, row.depth == 1 && !row.is_negotiating ? about(operation.signature) : "");
        }
        row.is_negotiating = false;
        return;
    }
    while (row.depth > 1) {
        end(row);
    }
    if (moment == Moment::started) {
        begin(row, activity_of(operation.signature, backend));
    } else if (moment == Moment::connecting) {
        begin(row, "INIT_" + upper(backend));
    } else {
        begin(row,
              moment == Moment::packing ? "MEMCPY_IN_FUSION_BUFFER" : "MEMCPY_OUT_FUSION_BUFFER");
    }
}

void Timeline::on_announced(int process_set, std::string_view name, int rank) {
    time_ = now();
    auto& row = row_of(process_set, name);
    // Rank 0 may have it later than the others.
    if (row.is_left_out || row.number == 0) {
        return;
    }
    push({.kind = TraceEvent::Kind::rank_ready, .row = row.number, .number = rank, .time = time_});
    wake_writer();
}

void Timeline::on_cycle() {
    if (options_.mark_cycles) {
        push({.kind = TraceEvent::Kind::cycle, .time = now()});
        wake_writer();
    }
}

void Timeline::begin(Row& row, std::string activity) {
    ++row.depth;
    if (!row.is_left_out) {
        push({.kind = TraceEvent::Kind::begin,
              .row = row.number,
              .time = time_,
              .text = std::move(activity)});
    }
}

void Timeline::end(Row& row, std::string about) {
    --row.depth;
    if (!row.is_left_out) {
        push({.kind = TraceEvent::Kind::end,
              .row = row.number,
              .time = time_,
              .text = std::move(about)});
    }
}

void Timeline::push(TraceEvent event) {
    if (lost_ != 0 && queue_.room() > options_.capacity / kReserve) {
        (void)queue_.push({.kind = TraceEvent::Kind::lost,
                           .number = std::exchange(lost_, 0),
                           .time = event.time});
    }
    if (!queue_.push(std::move(event))) {
        ++lost_;
    }
}

// ---- the writer's thread ------------------------------------------------------------------------

/// A wake-up is a system call: it is made only where the writer sleeps, some times a second.
void Timeline::wake_writer() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_asleep_.load(std::memory_order_relaxed) && is_asleep_.exchange(false)) {
        { const std::lock_guard lock(mutex_); }
        wake_.notify_one();
    }
}

void Timeline::write(const std::stop_token& stop) {
    (void)pthread_setname_np(pthread_self(), "hvd-timeline");
    std::uint64_t seen = 0;
    while (!stop.stop_requested()) {
        {
            std::unique_lock lock(mutex_);
            is_asleep_.store(true, std::memory_order_seq_cst);
            wake_.wait(lock, stop, [&] { return queue_.published() != seen; });
            is_asleep_.store(false, std::memory_order_relaxed);
            // Events that follow soon are written with it.
            (void)wake_.wait_for(lock, stop, kLinger, [] { return false; });
        }
        seen = queue_.published();
        write_batch();
    }
    write_batch();
}

void Timeline::write_batch() {
    const auto flush = [&] {
        if (!text_.empty() && !has_failed_) {
            has_failed_ = !file_.append(text_);
        }
        text_.clear();
    };
    (void)queue_.drain([&](const TraceEvent& event) {
        text_ += text_.empty() ? "" : ",\n";
        append_json(event, text_);
        if (text_.size() > kMostText) {
            flush();
        }
    });
    flush();
}

}  // namespace hvd::rt

// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/merge_traces.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/timeline/align_clocks.hpp"
#include "launcher/timeline/host_clocks.hpp"
#include "launcher/timeline/trace_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace hvd::launch {
namespace {

using Json = TraceReader::Json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxHostClocks = std::size_t{256} << 20;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // of the merged trace

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

// ---- which files ----

Result<std::vector<fs::path>> find_files(const fs::path& folder) {
    std::error_code failure;
    std::vector<fs::path> files;
    for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
         entry.increment(failure)) {
        if (is_trace_name(entry->path().filename().string())) {
            files.push_back(entry->path());
        }
    }
    if (failure) {
        return wrong("cannot read the folder " + folder.string() + ": " + failure.message());
    }
    if (files.empty()) {
        return wrong("there is no rank-N.json in " + folder.string() +
                     ": a job of horovodrun --timeline-all writes them, into this folder of the "
                     "host where the rank runs; where hosts do not share it, copy them together");
    }
    std::ranges::sort(files);
    return files;
}

Result<std::vector<TraceStart>> read_starts(const std::vector<fs::path>& files) {
    std::vector<TraceStart> starts;
    for (const auto& file : files) {
        HVD_TRY(const auto reader, TraceReader::open(file));
        starts.push_back(reader.start());
    }
    std::ranges::sort(starts, {},
                      [](const TraceStart& start) { return std::pair(start.rank, start.file); });
    return starts;
}

std::string name_of_job(const TraceStart& start) {
    return (start.job.empty() ? "a job without a name" : "job " + start.job) + " of " +
           std::to_string(start.size) + " ranks";
}

Status check_same_job(const std::vector<TraceStart>& starts) {
    const auto& first = starts.front();
    const auto other = std::ranges::find_if(starts, [&](const TraceStart& start) {
        return std::pair(start.job, start.size) != std::pair(first.job, first.size);
    });
    if (other != starts.end()) {
        return wrong("the files are of different jobs: " + first.file.string() + " is of " +
                     name_of_job(first) + ", " + other->file.string() + " is of " +
                     name_of_job(*other) + "; remove those of the job that is not wanted");
    }
    const auto twice = std::ranges::adjacent_find(starts, {}, &TraceStart::rank);
    if (twice != starts.end()) {
        return wrong("rank " + std::to_string(twice->rank) + " has two files, " +
                     twice->file.string() + " and " + std::next(twice)->file.string() +
                     "; remove one");
    }
    return ok();
}

/// A sentence about the ranks that have no file; empty where all have.
std::string tell_missing(const std::vector<TraceStart>& starts) {
    std::set<int> known;
    std::ranges::transform(starts, std::inserter(known, known.end()), &TraceStart::rank);
    std::vector<int> missing;
    for (int rank = 0; rank < starts.front().size; ++rank) {
        if (!known.contains(rank)) {
            missing.push_back(rank);
        }
    }
    return missing.empty()
               ? std::string()
               : "no file of " + std::to_string(missing.size()) + " of " +
                     std::to_string(starts.front().size) + " ranks: " + format_ranges(missing);
}

/// Nothing, and a sentence about the reason, where they cannot be used.
std::optional<HostClocks> read_host_clocks(const fs::path& folder,
                                           const std::string& job,
                                           std::vector<std::string>& warnings) {
    const auto file = folder / kHostClocksFile;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
        warnings.push_back("there is no " + file.string() +
                           ", in which horovodrun leaves how the clocks of hosts differ");
        return std::nullopt;
    }
    const auto text = read_file(file, kMaxHostClocks);
    auto clocks = text ? parse_host_clocks(*text) : Result<HostClocks>(text.error());
    if (!clocks) {
        warnings.push_back(file.string() + " cannot be used: " + clocks.error().message);
        return std::nullopt;
    }
    if (clocks->job != job) {
        warnings.push_back(file.string() + " is of another job and is not used");
        return std::nullopt;
    }
    return std::move(*clocks);
}

// ---- the merged trace ----

/// Writes objects one behind the other, in large pieces.
class EventWriter final {
public:
    explicit EventWriter(const TakeText& take) : take_(take) {}

    [[nodiscard]] Status add(const Json& event) {
        text_ += std::exchange(is_first_, false) ? "\n" : ",\n";
        text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
        return text_.size() < kPiece ? ok() : flush();
    }

    [[nodiscard]] Status end(const Json& about) {
        text_ +=
            "\n], \"otherData\": " + about.dump(-1, ' ', false, Json::error_handler_t::replace) +
            "}\n";
        return flush();
    }

private:
    [[nodiscard]] Status flush() {
        auto status = take_(text_);
        text_.clear();
        return status;
    }

    const TakeText& take_;
    bool is_first_ = true;
    std::string text_ = R"({"displayTimeUnit": "ms", "traceEvents": [)";
};

/// An event of a rank as one of the merged trace.
class EventMover final {
public:
    /// All outlive it. `begin_ns` is time 0 of the merged trace.
    EventMover(const TraceStart& start, const RankClock& clock, std::int64_t begin_ns)
        : start_(start), clock_(clock), begin_ns_(begin_ns) {}

    /// What Perfetto shows of the rank itself.
    [[nodiscard]] std::vector<Json> introduction() const {
        const auto about = [&](const char* name, Json arguments) {
            return Json{
                {"name", name}, {"ph", "M"}, {"pid", start_.rank}, {"args", std::move(arguments)}};
        };
        return {about("process_name",
                      {{"name", "rank " + std::to_string(start_.rank) + " (" + start_.host + ")"}}),
                about("process_sort_index", {{"sort_index", start_.rank}}),
                about("process_labels", {{"labels", clock_.describe()}}),
                Json{{"name", "thread_name"},
                     {"ph", "M"},
                     {"pid", start_.rank},
                     {"tid", 0},
                     {"args", {{"name", "engine"}}}}};
    }

    /// In a rank's file a tensor is a process. Errors: those of Json, thrown, where it is no event.
    void move(Json& event) const {
        const auto row = event.at("pid").get<std::int64_t>();
        event["pid"] = start_.rank;
        event["tid"] = row;
        const auto phase = event.at("ph").get<std::string>();
        if (phase == "M") {
            const auto name = event.at("name").get<std::string>();
            if (name == "process_name") {
                event["name"] = "thread_name";
            } else if (name == "process_sort_index") {
                event["name"] = "thread_sort_index";
            }
            return;
        }
        event["ts"] = move(event.at("ts").get<double>());
        if (phase == "i") {
            event["s"] = "p";  // it concerns this rank, not all
        }
    }

private:
    /// Microseconds, with nanoseconds behind the point.
    [[nodiscard]] double move(double time_us) const {
        constexpr double kNsInUs = 1000;
        const auto time_ns = start_.steady_ns + std::llround(time_us * kNsInUs);
        return static_cast<double>(clock_.to_common(time_ns) - begin_ns_) / kNsInUs;
    }

    const TraceStart& start_;
    const RankClock& clock_;
    std::int64_t begin_ns_;
};

/// Gives a sentence where the file ends too early; else an empty one.
Result<std::string> add_events(const TraceStart& start,
                               const EventMover& mover,
                               EventWriter& writer) {
    for (const auto& event : mover.introduction()) {
        HVD_TRY_STATUS(writer.add(event));
    }
    HVD_TRY(auto reader, TraceReader::open(start.file));
    while (true) {
        auto next = reader.next();
        if (!next) {
            if (next.error().code != Errc::invalid_argument) {
                return next.error();
            }
            return "the last events of rank " + std::to_string(start.rank) +
                   " are missing: " + start.file.string() +
                   " is cut or damaged: " + next.error().message;
        }
        if (!*next) {
            return std::string();
        }
        try {
            mover.move(**next);
        } catch (const Json::exception& error) {
            return wrong(start.file.string() + ": " + (*next)->dump() +
                         " is no trace event: " + error.what());
        }
        HVD_TRY_STATUS(writer.add(**next));
    }
}

const char* name_of(RankClock::Basis basis) {
    switch (basis) {
        case RankClock::Basis::same: return "same";
        case RankClock::Basis::measured: return "measured";
        case RankClock::Basis::wall: return "wall";
    }
    return "";
}

Json about_merge(const std::vector<TraceStart>& starts,
                 const Alignment& alignment,
                 const std::vector<std::string>& warnings) {
    Json clocks = Json::object();
    for (std::size_t index = 0; index < starts.size(); ++index) {
        clocks["rank " + std::to_string(starts[index].rank)] =
            name_of(alignment.clocks[index].basis());
    }
    return {{"job", starts.front().job},
            {"size", starts.front().size},
            {"clocks", std::move(clocks)},
            {"warnings", warnings}};
}

}  // namespace

bool is_trace_name(std::string_view name) noexcept {
    return name.starts_with("rank-") && name.ends_with(".json");
}

Result<std::vector<std::string>> merge_traces(const fs::path& folder, const TakeText& take) {
    HVD_TRY(const auto files, find_files(folder));
    HVD_TRY(const auto starts, read_starts(files));
    HVD_TRY_STATUS(check_same_job(starts));
    std::vector<std::string> warnings;
    if (auto sentence = tell_missing(starts); !sentence.empty()) {
        warnings.push_back(std::move(sentence));
    }
    const auto measured = have_one_clock(starts)
                              ? std::nullopt
                              : read_host_clocks(folder, starts.front().job, warnings);
    auto alignment = align_clocks(starts, measured);
    std::ranges::move(alignment.warnings, std::back_inserter(warnings));

    auto begin_ns = std::numeric_limits<std::int64_t>::max();
    for (std::size_t index = 0; index < starts.size(); ++index) {
        begin_ns = std::min(begin_ns, alignment.clocks[index].to_common(starts[index].steady_ns));
    }
    EventWriter writer(take);
    for (std::size_t index = 0; index < starts.size(); ++index) {
        const EventMover mover(starts[index], alignment.clocks[index], begin_ns);
        HVD_TRY(auto sentence, add_events(starts[index], mover, writer));
        if (!sentence.empty()) {
            warnings.push_back(std::move(sentence));
        }
    }
    HVD_TRY_STATUS(writer.end(about_merge(starts, alignment, warnings)));
    return warnings;
}

}  // namespace hvd::launch

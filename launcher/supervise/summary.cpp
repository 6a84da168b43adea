// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/summary.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSummaryVersion = 1;

Json optional_number(const std::optional<int>& value) {
    return value ? Json(*value) : Json(nullptr);
}

/// A rank that was never started has none.
Json pid_or_null(int pid) {
    return pid == 0 ? Json(nullptr) : Json(pid);
}

/// To the microsecond: more digits than that are noise.
Json seconds(double value) {
    constexpr double kMicroseconds = 1e6;
    return static_cast<double>(static_cast<std::int64_t>(value * kMicroseconds)) / kMicroseconds;
}

Json to_json(const Culprit& culprit) {
    const auto& rank = culprit.rank;
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"local_rank", rank.local_rank},
            {"pid", pid_or_null(rank.pid)},
            {"exit_code", optional_number(rank.exit_code)},
            {"signal", rank.signal ? Json(signal_name(*rank.signal)) : Json(nullptr)},
            {"message", culprit.message.empty() ? culprit.what : culprit.message},
            {"stderr_tail", culprit.stderr_tail},
            {"failed_ranks", culprit.failed_ranks},
            {"seconds_before_next",
             culprit.lead_seconds ? seconds(*culprit.lead_seconds) : Json(nullptr)},
            {"same_ranks", culprit.same_ranks}};
}

Json lost_host(const std::string& host, const std::string& why) {
    return {{"rank", nullptr},
            {"host", host},
            {"local_rank", nullptr},
            {"pid", nullptr},
            {"exit_code", nullptr},
            {"signal", nullptr},
            {"message", why},
            {"stderr_tail", Json::array()},
            {"failed_ranks", nullptr},
            {"seconds_before_next", nullptr},
            {"same_ranks", Json::array()}};
}

Json culprit(const JobResult& result) {
    if (result.culprit) {
        return to_json(*result.culprit);
    }
    return result.lost_host ? lost_host(*result.lost_host, result.sentence) : Json(nullptr);
}

Json to_json(const RankResult& rank) {
    return {{"rank", rank.rank},
            {"host", rank.host},
            {"pid", pid_or_null(rank.pid)},
            {"exit_code", optional_number(rank.exit_code)},
            {"signal", rank.signal ? Json(signal_name(*rank.signal)) : Json(nullptr)},
            {"class", to_string(rank.rank_class)},
            {"seconds", seconds(rank.seconds)},
            {"max_rss_bytes", rank.max_rss_bytes}};
}

Json to_json(const LauncherResult& launcher) {
    auto json = to_json(launcher.process);
    json.erase("rank");
    json.erase("class");
    json["line"] = launcher.line;
    return json;
}

Error cannot_write(const std::string& flag, const std::filesystem::path& path, int error_number) {
    auto error = system_error(flag + ": cannot write " + path.string(), error_number);
    error.code = Errc::invalid_argument;
    return error;
}

constexpr int kInPlace = O_WRONLY | O_APPEND | O_CLOEXEC;

/// Names of open files, such as /dev/stdout, and whatever is no file: renaming one over it would
/// replace it.
bool is_written_in_place(const std::filesystem::path& path) {
    const auto& text = path.native();
    struct stat existing {};
    return text.starts_with("/dev/") || text.starts_with("/proc/") ||
           (::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode));
}

/// 0, or the error number.
int write_to(int fd, std::string_view text) {
    while (!text.empty()) {
        const auto size = ::write(fd, text.data(), text.size());
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0) {
            return errno;
        }
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return 0;
}

}  // namespace

std::string format_summary(const JobResult& result) {
    Json json = {
        {"version", kSummaryVersion},
        {"job_id", result.job_id},
        {"outcome", result.is_success() ? "success" : "failed"},
        {"exit_code", result.exit_code},
        {"reason", result.reason == Reason::none ? Json(nullptr) : Json(to_string(result.reason))},
        {"seconds", seconds(result.seconds)},
        {"culprit", culprit(result)},
        {"ranks", Json::array()},
        {"hosts", Json::array()},
        {"survivors", Json::array()},
        {"unswept", Json::array()},
        {"warnings", result.warnings}};
    if (!result.sentence.empty()) {
        json["warnings"].insert(json["warnings"].begin(), result.sentence);
    }
    if (result.launcher) {
        json["launcher"] = to_json(*result.launcher);
    }
    for (const auto& rank : result.ranks) {
        json["ranks"].push_back(to_json(rank));
    }
    for (const auto& host : result.hosts) {
        json["hosts"].push_back({{"host", host.host},
                                 {"state", host.state},
                                 {"error", host.error.empty() ? Json(nullptr) : Json(host.error)}});
    }
    for (const auto& [host, process] : result.survivors) {
        json["survivors"].push_back({{"host", host},
                                     {"pid", process.pid},
                                     {"state", process.state},
                                     {"wchan", process.wchan}});
    }
    for (const auto& [host, why] : result.unswept) {
        json["unswept"].push_back({{"host", host}, {"why", why}});
    }
    // Ranks may write any bytes; JSON is UTF-8.
    constexpr int kIndent = 2;
    return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<SummaryFile> SummaryFile::reserve(std::filesystem::path path,
                                         std::string flag,
                                         mode_t mode) {
    SummaryFile file;
    file.flag_ = std::move(flag);
    file.mode_ = mode;
    file.path_ = std::move(path);
    if (is_written_in_place(file.path_)) {
        const UniqueFd fd(::open(file.path_.c_str(), kInPlace | O_NONBLOCK));
        if (!fd && errno != ENXIO) {  // a named pipe may get its reader only later
            return cannot_write(file.flag_, file.path_, errno);
        }
        return file;
    }
    // A link stays one: what it leads to is replaced.
    std::error_code unknown;
    const auto real = std::filesystem::weakly_canonical(file.path_, unknown);
    auto name = (unknown ? file.path_ : real).string();
    file.target_ = name;
    name += ".XXXXXX";
    const UniqueFd made(::mkostemp(name.data(), O_CLOEXEC));
    if (!made) {
        return cannot_write(file.flag_, file.path_, errno);
    }
    file.temporary_ = name;
    return file;
}

SummaryFile::~SummaryFile() {
    if (!temporary_.empty()) {
        (void)::unlink(temporary_.c_str());
    }
}

Status SummaryFile::write(const JobResult& result) {
    return write_text(format_summary(result));
}

Status SummaryFile::write_text(std::string_view text) {
    HVD_TRY_STATUS(append(text));
    return finish();
}

Status SummaryFile::append(std::string_view text) {
    if (!fd_) {
        fd_.reset(temporary_.empty() ? ::open(path_.c_str(), kInPlace)
                                     : ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC));
    }
    if (!fd_) {
        return cannot_write(flag_, path_, errno);
    }
    const int error = write_to(fd_.get(), text);
    return error == 0 ? ok() : Status(cannot_write(flag_, path_, error));
}

Status SummaryFile::finish() {
    const UniqueFd fd = std::move(fd_);
    if (temporary_.empty()) {
        return ok();
    }
    // mkostemp made it private; a summary that the user names is as public as other files.
    const auto mask = ::umask(0);
    (void)::umask(mask);
    (void)::fchmod(fd.get(), mode_ & ~mask);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
        return cannot_write(flag_, path_, errno);
    }
    temporary_.clear();
    return ok();
}

}  // namespace hvd::launch

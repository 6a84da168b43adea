// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_files.hpp"

#include "launcher/output/output_file.hpp"
#include "launcher/output/write_all.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <sys/resource.h>

namespace hvd::launch {
namespace {

constexpr std::array<std::string_view, 2> kNames{"stdout", "stderr"};
constexpr rlim_t kOtherDescriptors = 64;

/// The agents were started before, so that ranks keep the limit that horovodrun was given.
void allow_descriptors(rlim_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = std::min(wanted, limit.rlim_max);
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

Result<std::unique_ptr<Sink>> RankFiles::create(const std::filesystem::path& folder,
                                                int ranks,
                                                Events events,
                                                LauncherLog* log) {
    allow_descriptors(static_cast<rlim_t>(ranks) * kNames.size() + kOtherDescriptors);
    auto files = std::unique_ptr<RankFiles>(new RankFiles(std::move(events), log));
    for (int rank = 0; rank < ranks; ++rank) {
        Files entry{.streams = {}, .folder = folder / rank_folder_name(rank, ranks)};
        HVD_TRY(const auto opened, open_output_folder(entry.folder));
        for (std::size_t stream = 0; stream < kNames.size(); ++stream) {
            const auto path = entry.folder / kNames.at(stream);
            constexpr mode_t kMode = 0666;
            HVD_TRY(entry.streams.at(stream), open_output_file(path, 0, kMode, opened.get()));
        }
        files->ranks_.push_back(std::move(entry));
    }
    return std::unique_ptr<Sink>(std::move(files));
}

void RankFiles::take(const Chunk& chunk) {
    if (chunk.kind == Chunk::Kind::notice) {
        take_words(chunk);
    }
    if (chunk.kind != Chunk::Kind::data || std::cmp_equal(chunk.rank, ranks_.size())) {
        return;  // what is of no rank has no file
    }
    auto& files = ranks_.at(static_cast<std::size_t>(chunk.rank));
    const auto stream = static_cast<std::size_t>(chunk.stream);
    if (!files.streams.at(stream)) {
        return;
    }
    const int error = write_all(files.streams.at(stream).get(), chunk.text());
    if (error == 0) {
        return;
    }
    files.streams.at(stream).reset();
    if (const auto tell = std::exchange(events_.on_error, nullptr)) {
        tell(system_error("cannot write " + (files.folder / kNames.at(stream)).string(), error)
                 .message +
             "; the rest of it is lost, the job goes on");
    }
}

void RankFiles::take_words(const Chunk& chunk) {
    const auto written = log_ != nullptr ? log_->write(chunk.time_ns, chunk.text()) : ok();
    // Where output of ranks was lost too, the reason was told.
    if (!written && events_.on_error && events_.on_log_error) {
        events_.on_log_error(written.error().message + "; the rest of it is lost, the job goes on");
    }
}

std::string rank_folder_name(int rank, int ranks) {
    auto number = std::to_string(rank);
    const auto digits = std::to_string(ranks - 1).size();
    number.insert(0, digits - std::min(digits, number.size()), '0');
    return "rank." + number;
}

}  // namespace hvd::launch

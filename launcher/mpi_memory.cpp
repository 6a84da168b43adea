// SPDX-License-Identifier: Apache-2.0
#include "launcher/mpi_memory.hpp"

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/command_path.hpp"
#include "launcher/agent/own_folder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <variant>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 18;
constexpr std::time_t kMaxAge = 24L * 60 * 60;

/// Ends the key in the file: no path and no variable has it.
constexpr char kEndOfKey = '\0';

/// By which an MPI, or the linker that loads it, could become another.
constexpr std::array<std::string_view, 8> kPrefixes{"LD_",   "OPAL_",  "OMPI_",  "PRTE_",
                                                    "PMIX_", "I_MPI_", "HYDRA_", "MPI"};

bool is_program(const std::string& path) {
    constexpr std::array<char, 4> kElf{'\177', 'E', 'L', 'F'};
    std::array<char, kElf.size()> first{};
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    return file && ::read(file.get(), first.data(), first.size()) == std::ssize(first) &&
           first == kElf;
}

std::string describe(const std::string& path, const struct stat& file) {
    std::string text = path;
    for (const std::int64_t number :
         {static_cast<std::int64_t>(file.st_dev), static_cast<std::int64_t>(file.st_ino),
          static_cast<std::int64_t>(file.st_size), static_cast<std::int64_t>(file.st_mtim.tv_sec),
          static_cast<std::int64_t>(file.st_mtim.tv_nsec),
          static_cast<std::int64_t>(file.st_ctim.tv_sec),
          static_cast<std::int64_t>(file.st_ctim.tv_nsec)}) {
        text += " " + std::to_string(number);
    }
    return text + "\n";
}

std::string hash_name(std::string_view text) {  // FNV-1a: files of different programs part
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    return "mpirun-" + std::to_string(hash);
}

std::filesystem::path cache_folder(const Environment& environment) {
    if (const auto cache = find(environment, "XDG_CACHE_HOME"); cache && cache->starts_with('/')) {
        return std::filesystem::path(*cache) / "horovodrun";
    }
    const auto home = find(environment, "HOME");
    return home && home->starts_with('/') ? std::filesystem::path(*home) / ".cache" / "horovodrun"
                                          : std::filesystem::path();
}

/// Ours alone, and not from yesterday.
bool is_own_file(const UniqueFd& file) {
    constexpr mode_t kAllBits = 07777;
    struct stat facts {};
    return file && ::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           facts.st_uid == ::geteuid() && (facts.st_mode & kAllBits) == (S_IRUSR | S_IWUSR) &&
           std::abs(std::time(nullptr) - facts.st_mtim.tv_sec) < kMaxAge;
}

}  // namespace

MpiMemory::MpiMemory(const std::string& program, const Environment& environment) {
    std::error_code error;
    const auto here = std::filesystem::current_path(error);
    const auto found = agent::find_command(program, find(environment, "PATH"), here.string());
    const auto* path = std::get_if<std::string>(&found);
    folder_ = cache_folder(environment);
    if (error || path == nullptr || folder_.empty()) {
        return;
    }
    const auto resolved = std::filesystem::canonical(*path, error);
    struct stat facts {};
    if (error || ::stat(resolved.c_str(), &facts) != 0 || !is_program(resolved)) {
        return;
    }
    // One file may serve several names, and answer by the name.
    key_ = *path + "\n" + describe(resolved.string(), facts);
    for (const auto& [name, value] : environment) {
        if (std::ranges::any_of(kPrefixes, [&name = name](std::string_view prefix) {
                return name.starts_with(prefix);
            })) {
            key_.append(name).append("=").append(value).append("\n");
        }
    }
    key_ += kEndOfKey;
    file_ = folder_ / hash_name(*path);
}

std::optional<std::string> MpiMemory::recall() const {
    if (key_.empty() || !agent::is_own_folder(folder_.c_str())) {
        return std::nullopt;
    }
    const UniqueFd file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!is_own_file(file)) {
        return std::nullopt;
    }
    std::string text;
    std::array<char, 4096> bytes{};
    while (text.size() < kMaxFile) {
        const auto count = ::read(file.get(), bytes.data(), bytes.size());
        if (count < 0) {
            return std::nullopt;
        }
        if (count == 0) {
            break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return text.starts_with(key_) && text.size() > key_.size()
               ? std::optional(text.substr(key_.size()))
               : std::nullopt;
}

void MpiMemory::keep(std::string_view answer) const {
    const auto text = key_ + std::string(answer);
    if (key_.empty() || answer.empty() || text.size() >= kMaxFile) {
        return;
    }
    std::error_code ignored;  // the file tells
    std::filesystem::create_directories(folder_.parent_path(), ignored);
    (void)::mkdir(folder_.c_str(), S_IRWXU);
    if (!agent::is_own_folder(folder_.c_str())) {
        return;
    }
    auto name = file_.string() + ".XXXXXX";
    const UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));  // of mode 0600
    if (!file) {
        return;
    }
    const bool is_whole = ::write(file.get(), text.data(), text.size()) == std::ssize(text);
    if (!is_whole || ::rename(name.c_str(), file_.c_str()) != 0) {
        (void)::unlink(name.c_str());
    }
}

}  // namespace hvd::launch

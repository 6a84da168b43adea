// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/token.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/wire/token_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxFile = 4096;

std::vector<std::filesystem::path> folders(const Environment& environment) {
    std::vector<std::filesystem::path> folders;
    if (const auto cache = find(environment, "XDG_CACHE_HOME"); cache && cache->starts_with('/')) {
        folders.emplace_back(std::filesystem::path(*cache) / "horovodrun");
    }
    if (const auto home = find(environment, "HOME"); home && home->starts_with('/')) {
        folders.emplace_back(std::filesystem::path(*home) / ".cache" / "horovodrun");
    }
    folders.emplace_back("/tmp");
    return folders;
}

/// A new file that only the user can read. Its name is in `path`.
Status write_token(std::string& path, const std::string& token) {
    const UniqueFd file(::mkstemp(path.data()));  // of mode 0600
    if (!file) {
        return system_error(path, errno);
    }
    const auto text = token + "\n";
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        const int error = errno;
        (void)::unlink(path.c_str());
        return system_error(path, error);
    }
    return ok();
}

}  // namespace

Result<JoinToken> JoinToken::read(const std::filesystem::path& file) {
    struct stat found {};
    if (::stat(file.c_str(), &found) == 0) {
        if (auto trusted = wire::check_token_file(found, ::geteuid()); !trusted) {
            return std::move(trusted).error().context(file.string());
        }
    }
    auto text = read_file(file, kMaxFile);
    if (!text) {
        return Error{Errc::invalid_argument,
                     text.error().message +
                         "; make it with `(umask 077; openssl rand -hex 32 > FILE)`, or leave out "
                         "--join-token-file and HOROVOD_JOIN_TOKEN_FILE to have one made"};
    }
    auto key = wire::join_key(*text);
    if (!key) {
        return std::move(key).error().context(file.string());
    }
    return JoinToken(*key, file, false);
}

Result<JoinToken> JoinToken::make(const Environment& environment) {
    const auto token = wire::make_join_token();
    std::string tried;
    for (const auto& folder : folders(environment)) {
        std::error_code ignored;  // the file tells
        std::filesystem::create_directories(folder.parent_path(), ignored);
        (void)::mkdir(folder.c_str(), S_IRWXU);  // the agent's cache is there too, and wants it so
        auto path = (folder / "join-XXXXXX").string();
        if (const auto written = write_token(path, token); !written) {
            tried += (tried.empty() ? "" : "; ") + written.error().message;
            continue;
        }
        HVD_TRY(const auto key, wire::join_key(token));
        return JoinToken(key, path, true);
    }
    return Error{Errc::unavailable,
                 "no file for the join token: " + tried + "; name one with --join-token-file"};
}

JoinToken::JoinToken(JoinToken&& other) noexcept
    : key_(other.key_),
      file_(std::move(other.file_)),
      is_made_(std::exchange(other.is_made_, false)) {}

JoinToken::~JoinToken() {
    if (is_made_) {
        (void)::unlink(file_.c_str());
    }
}

}  // namespace hvd::launch

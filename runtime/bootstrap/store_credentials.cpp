// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/store_credentials.hpp"

#include "collectives/base/file.hpp"

#include <cerrno>
#include <span>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

using coll::store::Authentication;
using coll::store::Credentials;

constexpr std::string_view kMungeSocket = "HOROVOD_MUNGE_SOCKET";
constexpr std::size_t kLeastBytes = 16;
constexpr std::size_t kMostBytes = 4096;

Result<Credentials> read_key_file(const std::string& path) {
    const auto refuse = [&](const std::string& why) {
        return Error{Errc::invalid_argument, std::string(kKeyFile) + "='" + path + "': " + why};
    };
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) {
        return refuse(system_error("stat", errno).message);
    }
    if (facts.st_uid != ::geteuid() || (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return refuse("it must be yours, and readable by nobody else: chmod 600");
    }
    HVD_TRY(const auto text, read_file(path, kMostBytes));
    if (text.size() < kLeastBytes) {
        return refuse("a key has at least " + std::to_string(kLeastBytes) +
                      " bytes: head -c 32 /dev/urandom > FILE");
    }
    const auto bytes = std::as_bytes(std::span(text));
    return Credentials{.kind = Authentication::key, .secret = {bytes.begin(), bytes.end()}};
}

}  // namespace

Result<Credentials> find_credentials(const Environment& environment,
                                     const coll::ExternalLaunch& launch) {
    if (const auto path = find(environment, kKeyFile); path && !path->empty()) {
        return read_key_file(*path);
    }
    if (launch.launcher == coll::Launcher::torchrun) {
        return Credentials{};
    }
    Credentials munge{.kind = Authentication::munge,
                      .secret = {},
                      .munge_socket = find(environment, kMungeSocket).value_or("")};
    if (const auto tried = coll::store::create_authenticator(munge); !tried) {
        return Error{Errc::unavailable,
                     "the ranks on other hosts cannot be authenticated (" + tried.error().message +
                         "): start munged on all hosts, or set " + std::string(kKeyFile) +
                         " to a file on all hosts that only you can read, or use horovodrun"};
    }
    return munge;
}

}  // namespace hvd::rt

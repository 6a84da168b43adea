// SPDX-License-Identifier: Apache-2.0
//
// The options of an agent that joins a job by itself: its arguments and its token.
#include "collectives/base/deadline.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/lifecycle/join.hpp"
#include "launcher/model/host.hpp"
#include "launcher/wire/token_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxToken = 4096;
constexpr int kMaxSeconds = 31'536'000;

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

Result<JoinAddress> parse_address(std::string_view text) {
    const auto refuse = [&] {
        return wrong("--join " + std::string(text) +
                     ": must be a literal address and a port, such as 10.0.0.1:4000 or "
                     "[fd00::1]:4000; `horovodrun --join` takes names");
    };
    const auto colon = text.rfind(':');
    const auto port = colon == std::string_view::npos
                          ? std::nullopt
                          : parse_number<std::uint16_t>(text.substr(colon + 1));
    if (!port || *port == 0) {
        return refuse();
    }
    JoinAddress address{.text = std::string(text)};
    auto host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
        const auto percent = host.find('%');
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(*port);
        if (::inet_pton(AF_INET6, std::string(host.substr(0, percent)).c_str(), &six.sin6_addr) !=
            1) {
            return refuse();
        }
        if (percent != std::string_view::npos) {
            const std::string scope(host.substr(percent + 1));
            six.sin6_scope_id =
                parse_number<std::uint32_t>(scope).value_or(::if_nametoindex(scope.c_str()));
        }
        std::memcpy(&address.storage, &six, sizeof six);
        address.size = sizeof six;
        return address;
    }
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(*port);
    if (::inet_pton(AF_INET, std::string(host).c_str(), &four.sin_addr) != 1) {
        return refuse();
    }
    std::memcpy(&address.storage, &four, sizeof four);
    address.size = sizeof four;
    return address;
}

Status apply(JoinOptions& options, std::string_view flag, std::string_view value) {
    if (flag == "--join") {
        HVD_TRY(auto address, parse_address(value));
        options.addresses.push_back(std::move(address));
    } else if (flag == "--join-name") {
        options.name = value;
    } else if (flag == "--join-token-file") {
        options.token_file = value;
    } else if (flag == "--join-slots") {
        const auto slots = parse_number<int>(value);
        if (!slots || *slots < 1 || *slots > kMaxSlots) {
            return wrong("--join-slots " + std::string(value) + ": must be a number from 1 to " +
                         std::to_string(kMaxSlots));
        }
        options.slots = *slots;
    } else if (flag == "--join-step" && value == "slurm") {
        options.is_slurm_step = true;
    } else if (flag == "--join-unlink") {
        options.own_file = value;
    } else if (flag == "--start-timeout") {
        const auto seconds = parse_number<double>(value);
        if (!seconds || !(*seconds >= 0 && *seconds <= kMaxSeconds)) {
            return wrong("--start-timeout " + std::string(value) + ": must be a number of seconds");
        }
        options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
    } else {
        return wrong("unknown argument '" + std::string(flag) + "'");
    }
    return ok();
}

}  // namespace

Result<JoinOptions> parse_join_options(std::span<const std::string_view> arguments) {
    JoinOptions options;
    while (!arguments.empty()) {
        if (arguments.size() < 2) {
            return wrong(std::string(arguments.front()) + ": unknown, or its value is missing");
        }
        HVD_TRY_STATUS(apply(options, arguments[0], arguments[1]));
        arguments = arguments.subspan(2);
    }
    if (options.addresses.empty()) {
        return wrong("--join ADDRESS:PORT is missing");
    }
    return options;
}

Result<wire::Key> read_token(const JoinOptions& options, Deadline deadline) {
    const auto where =
        options.token_file.empty() ? "the token on standard input" : options.token_file;
    UniqueFd file;
    int from = STDIN_FILENO;
    if (!options.token_file.empty()) {
        file = UniqueFd(::open(options.token_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
        if (!file) {
            return wrong(system_error(where, errno).message);
        }
        from = file.get();
        struct stat found {};
        if (::fstat(from, &found) == 0) {
            if (auto trusted = wire::check_token_file(found, ::geteuid()); !trusted) {
                return std::move(trusted).error().context(where);
            }
        }
    }
    std::string text;
    // One line: a terminal or srun may keep standard input open behind it.
    while (text.size() <= kMaxToken && text.find('\n') == std::string::npos) {
        pollfd ready{.fd = from, .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, deadline.poll_timeout_ms()) == 0) {
            return Error{Errc::timed_out,
                         where +
                             ": no line came in time; write the token there, name its file "
                             "with --join-token-file, or allow more time with --start-timeout"};
        }
        std::array<char, kMaxToken> bytes{};
        const auto count = ::read(from, bytes.data(), bytes.size());
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (count < 0) {
            return wrong(system_error(where, errno).message);
        }
        if (count == 0) {
            break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    auto key = wire::join_key(std::string_view(text).substr(0, text.find('\n')));
    return key ? std::move(key) : std::move(key).error().context(where);
}

}  // namespace hvd::launch::agent

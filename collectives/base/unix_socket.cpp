// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/unix_socket.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace hvd {
namespace {

constexpr std::size_t kMaxTable = std::size_t{1} << 30;  // other users decide how long it is

struct Address {
    sockaddr_un data{};
    socklen_t size = 0;

    [[nodiscard]] const sockaddr* get() const noexcept {
        return reinterpret_cast<const sockaddr*>(&data);
    }
};

/// For messages: abstract names are written with an '@', as `ss -x` does.
[[nodiscard]] std::string shown(std::string_view name) {
    return "socket @" + std::string(name);
}

[[nodiscard]] Result<Address> abstract_address(std::string_view name) {
    Address address;
    address.data.sun_family = AF_UNIX;
    if (name.empty() || name.size() > sizeof address.data.sun_path - 1) {
        return Error{Errc::invalid_argument, shown(name) + ": the name must have 1 to " +
                                                 std::to_string(sizeof address.data.sun_path - 1) +
                                                 " bytes"};
    }
    std::memcpy(&address.data.sun_path[1], name.data(), name.size());
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

[[nodiscard]] Error unavailable(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    error.code = Errc::unavailable;
    return error;
}

/// The timeout of a blocking connect, which waits while the listener's queue is full.
[[nodiscard]] timeval as_timeval(Deadline deadline) noexcept {
    if (deadline.is_never()) {
        return {};
    }
    const int left_ms = std::max(1, deadline.poll_timeout_ms());  // 0 would mean for ever
    return {.tv_sec = left_ms / 1000, .tv_usec = (left_ms % 1000) * 1000L};
}

[[nodiscard]] bool would_block(int error_number) noexcept {
    return error_number == EAGAIN || error_number == EWOULDBLOCK;
}

/// Where every message with descriptors keeps them.
union ControlBuffer {
    cmsghdr alignment;
    std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> bytes;
};

[[nodiscard]] std::vector<UniqueFd> take_fds(msghdr& message) {
    std::vector<UniqueFd> fds;
    for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t index = 0; index < count; ++index) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + index * sizeof fd, sizeof fd);
            fds.emplace_back(fd);
        }
    }
    return fds;
}

}  // namespace

Result<PeerCredentials> peer_credentials(int socket) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        return unavailable("SO_PEERCRED", errno);
    }
    return PeerCredentials{credentials.pid, credentials.uid};
}

Result<Listening> listen_abstract(std::string_view name, int socket_type) {
    HVD_TRY(const auto address, abstract_address(name));
    UniqueFd socket(::socket(AF_UNIX, socket_type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
        return unavailable(shown(name), errno);
    }
    if (::bind(socket.get(), address.get(), address.size) != 0) {
        if (errno == EADDRINUSE) {
            return Listening{.socket = UniqueFd(), .is_name_taken = true};
        }
        return unavailable(shown(name) + ": bind", errno);
    }
    if (::listen(socket.get(), SOMAXCONN) != 0) {
        return unavailable(shown(name) + ": listen", errno);
    }
    return Listening{.socket = std::move(socket), .is_name_taken = false};
}

std::vector<std::string> listening_abstract_names(std::string_view table, std::string_view prefix) {
    // "Num: RefCount Protocol Flags Type St Inode Path", where Path is "@name" if it is abstract.
    constexpr std::size_t kFlags = 3;
    constexpr std::size_t kPath = 7;
    constexpr std::string_view kAccepting = "00010000";  // __SO_ACCEPTCON
    std::vector<std::string> names;
    for (const auto line : split(table, '\n')) {
        auto fields = split(line, ' ');
        std::erase(fields, std::string_view{});
        if (fields.size() == kPath + 1 && fields[kFlags] == kAccepting &&
            fields[kPath].starts_with('@') && fields[kPath].substr(1).starts_with(prefix)) {
            names.emplace_back(fields[kPath].substr(1));
        }
    }
    return names;
}

std::vector<std::string> listening_abstract_names(std::string_view prefix) {
    const auto table = read_file("/proc/net/unix", kMaxTable);
    return table ? listening_abstract_names(*table, prefix) : std::vector<std::string>{};
}

Result<UniqueFd> connect_abstract(std::string_view name, int socket_type, Deadline deadline) {
    HVD_TRY(const auto address, abstract_address(name));
    UniqueFd socket(::socket(AF_UNIX, socket_type | SOCK_CLOEXEC, 0));
    if (!socket) {
        return unavailable(shown(name), errno);
    }
    const auto limit = as_timeval(deadline);
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    while (::connect(socket.get(), address.get(), address.size) != 0) {
        if (errno == ECONNREFUSED) {
            return UniqueFd();
        }
        if (would_block(errno)) {
            return Error{Errc::timed_out, shown(name) + ": the listener does not accept"};
        }
        if (errno != EINTR) {
            return unavailable(shown(name) + ": connect", errno);
        }
    }
    const int on = 1;
    if (::ioctl(socket.get(), FIONBIO, &on) != 0) {
        return unavailable(shown(name), errno);
    }
    return socket;
}

Status await_socket(int socket, short poll_events, Deadline deadline) {
    pollfd ready{socket, poll_events, 0};
    while (true) {
        const int count = ::poll(&ready, 1, deadline.poll_timeout_ms());
        if (count > 0) {
            return ok();
        }
        if (count == 0 && deadline.has_passed()) {
            return Error{Errc::timed_out, "no answer in time"};
        }
        if (count < 0 && errno != EINTR) {
            return unavailable("poll", errno);
        }
    }
}

namespace {

/// After a call that failed with errno: waits until it is worth another try, or says why not.
[[nodiscard]] Status await_retry(int socket,
                                 short poll_events,
                                 const char* what,
                                 Deadline deadline) {
    if (would_block(errno)) {
        return await_socket(socket, poll_events, deadline);
    }
    if (errno == EINTR) {
        return ok();
    }
    if (errno == ETOOMANYREFS) {
        return unavailable("too many descriptors on their way (see `ulimit -n`)", errno);
    }
    return unavailable(what, errno);
}

/// The size of a packet, 0 at the end. `message` has room for a ControlBuffer.
[[nodiscard]] Result<std::size_t> receive(int socket, msghdr& message, Deadline deadline) {
    while (true) {
        message.msg_controllen = sizeof(ControlBuffer::bytes);
        const auto size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (size >= 0) {
            return static_cast<std::size_t>(size);
        }
        HVD_TRY_STATUS(await_retry(socket, POLLIN, "recvmsg", deadline));
    }
}

}  // namespace

Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        auto again = sent < 0 ? await_retry(socket, POLLOUT, "send", deadline) : ok();
        HVD_TRY_STATUS(again);
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
    return ok();
}

Status send_packet(int socket,
                   std::span<const std::byte> bytes,
                   std::span<const int> fds,
                   Deadline deadline) {
    // The kernel only reads what sendmsg is given.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): iovec has no const form
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.bytes.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        auto* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
        HVD_TRY_STATUS(await_retry(socket, POLLOUT, "sendmsg", deadline));
    }
    return ok();
}

Result<Packet> receive_packet(int socket, Deadline deadline) {
    Packet packet;
    packet.bytes.resize(kMaxPacketBytes);
    ControlBuffer control{};
    iovec part{packet.bytes.data(), packet.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    HVD_TRY(auto size, receive(socket, message, deadline));
    if (size == 0) {
        // The kernel looks at the queue first, and only then whether the other end is closed: a
        // last packet may have come between (net/unix/af_unix.c, unix_dgram_recvmsg).
        HVD_TRY(size, receive(socket, message, deadline));
    }
    packet.fds = take_fds(message);
    packet.bytes.resize(size);
    if (size == 0) {
        return Error{Errc::unavailable, "the other end closed the connection"};
    }
    if ((static_cast<unsigned>(message.msg_flags) & MSG_CTRUNC) != 0) {
        return Error{Errc::unavailable, "descriptors were lost on their way (see `ulimit -n`)"};
    }
    return packet;
}

}  // namespace hvd

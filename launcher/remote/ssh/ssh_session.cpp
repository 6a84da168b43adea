// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/ssh_session.hpp"

#include "collectives/base/text.hpp"
#include "launcher/remote/ssh/encoding.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <openssl/crypto.h>

namespace hvd::launch::ssh {
namespace {

constexpr unsigned kWindow = 2U << 20U;  // bytes that may be under way to us
constexpr std::size_t kMaxFarewell = 200;
constexpr std::string_view kSession = "session";
constexpr std::string_view kExec = "exec";

/// libssh2 wants to be initialised once per process, before any thread uses it. OpenSSL's
/// configuration may name plug-ins, which a program linked statically cannot load.
bool initialise() {
    static const bool is_ready =
        ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1 && ::libssh2_init(0) == 0;
    return is_ready;
}

/// All that libssh2 offers, but the cheapest first: for curve25519 sshd has plain C, which takes it
/// more than a millisecond, and for P-256 OpenSSL's assembly.
std::string key_exchanges(LIBSSH2_SESSION* session) {
    constexpr std::string_view kCheapest = "ecdh-sha2-nistp256";
    std::string list(kCheapest);
    const char** names = nullptr;
    const int count = ::libssh2_session_supported_algs(session, LIBSSH2_METHOD_KEX, &names);
    for (int index = 0; index < count; ++index) {
        if (names[index] != kCheapest) {
            list.append(",").append(names[index]);
        }
    }
    if (count > 0) {
        ::libssh2_free(session, names);
    }
    return list;
}

/// Called by libssh2 when the other side takes its leave.
// NOLINTNEXTLINE(readability-function-size): its parameters are those of libssh2
void keep_farewell(LIBSSH2_SESSION* /*session*/,
                   int /*reason*/,
                   const char* message,
                   int size,
                   const char* /*language*/,
                   int /*language_size*/,
                   void** abstract) {
    auto& farewell = *static_cast<std::optional<std::string>*>(*abstract);
    const std::string_view text(message, message == nullptr ? 0 : static_cast<std::size_t>(size));
    farewell = one_line(text, kMaxFarewell);
}

/// Called by libssh2 with the data to sign. -37 (again) has the same call repeated later.
int sign_for_libssh2(LIBSSH2_SESSION* /*session*/,
                     unsigned char** signature,
                     size_t* size,
                     const unsigned char* data,
                     size_t data_size,
                     void** abstract) {
    const auto& sign = *static_cast<const SshSession::Sign*>(*abstract);
    const auto answer = sign({reinterpret_cast<const char*>(data), data_size});
    if (!answer) {
        return LIBSSH2_ERROR_EAGAIN;
    }
    if (!*answer) {
        return LIBSSH2_ERROR_AUTHENTICATION_FAILED;
    }
    // The blob is the method's name and the bare signature, which libssh2 wants, in its own memory.
    FieldReader reader(**answer);
    const auto method = reader.text();
    const auto bare = reader.text();
    if (!method || !bare) {
        return LIBSSH2_ERROR_AUTHENTICATION_FAILED;
    }
    auto* copy = static_cast<unsigned char*>(
        std::malloc(bare->size()));  // NOLINT(cppcoreguidelines-no-malloc): libssh2 frees it
    if (copy == nullptr) {
        return LIBSSH2_ERROR_ALLOC;
    }
    std::copy_n(bare->data(), bare->size(), copy);
    *signature = copy;
    *size = bare->size();
    return 0;
}

}  // namespace

SshSession::SshSession(int fd, const std::string& algorithms)
    : session_(initialise() ? ::libssh2_session_init_ex(nullptr, nullptr, nullptr, &farewell_)
                            : nullptr),
      fd_(fd) {
    if (session_ == nullptr) {
        throw Exception({Errc::internal, "libssh2: no session can be made"});
    }
    ::libssh2_session_set_blocking(session_, 0);
    (void)::libssh2_session_callback_set(session_, LIBSSH2_CALLBACK_DISCONNECT,
                                         reinterpret_cast<void*>(keep_farewell));
    (void)::libssh2_session_method_pref(session_, LIBSSH2_METHOD_HOSTKEY, algorithms.c_str());
    (void)::libssh2_session_method_pref(session_, LIBSSH2_METHOD_KEX,
                                        key_exchanges(session_).c_str());
}

SshSession::~SshSession() {
    // Says goodbye if there is room for it. What libssh2 could still have to send is dropped.
    (void)::libssh2_session_disconnect_ex(session_, SSH_DISCONNECT_BY_APPLICATION, "done", "");
    if (channel_ != nullptr) {
        (void)::libssh2_channel_free(channel_);
    }
    (void)::libssh2_session_free(session_);
}

Step SshSession::step(long code) {
    if (code == LIBSSH2_ERROR_EAGAIN) {
        return Step::again;
    }
    return code < 0 ? Step::failed : Step::done;
}

Step SshSession::handshake() {
    return step(::libssh2_session_handshake(session_, fd_));
}

bool SshSession::has_seen_banner() const {
    return ::libssh2_session_banner_get(session_) != nullptr;
}

std::string SshSession::host_key() const {
    std::size_t size = 0;
    int type = 0;
    const auto* key = ::libssh2_session_hostkey(session_, &size, &type);
    return key == nullptr ? std::string() : std::string(key, size);
}

Step SshSession::sign_in_with_file(const std::string& user,
                                   const std::string& path,
                                   const std::string& public_path) {
    return step(::libssh2_userauth_publickey_fromfile_ex(
        session_, user.data(), static_cast<unsigned>(user.size()),
        public_path.empty() ? nullptr : public_path.c_str(), path.c_str(), nullptr));
}

Step SshSession::sign_in(const std::string& user, const std::string& blob, Sign sign) {
    sign_ = std::move(sign);
    return step(::libssh2_userauth_publickey(session_, user.c_str(),
                                             reinterpret_cast<const unsigned char*>(blob.data()),
                                             blob.size(), sign_for_libssh2, &signer_));
}

Step SshSession::list_methods(const std::string& user, std::string& methods) {
    const auto* list =
        ::libssh2_userauth_list(session_, user.data(), static_cast<unsigned>(user.size()));
    if (list != nullptr) {
        methods = list;
        return Step::done;
    }
    return step(last_code());
}

void SshSession::forget_channel() {
    if (channel_ != nullptr) {
        (void)::libssh2_channel_free(std::exchange(channel_, nullptr));
    }
}

Step SshSession::open_channel() {
    channel_ =
        ::libssh2_channel_open_ex(session_, kSession.data(), static_cast<unsigned>(kSession.size()),
                                  kWindow, LIBSSH2_CHANNEL_PACKET_DEFAULT, nullptr, 0);
    return channel_ != nullptr ? Step::done : step(last_code());
}

Step SshSession::execute(std::string_view line) {
    return step(::libssh2_channel_process_startup(channel_, kExec.data(),
                                                  static_cast<unsigned>(kExec.size()), line.data(),
                                                  static_cast<unsigned>(line.size())));
}

Step SshSession::read(Stream stream, std::span<std::byte> buffer, std::size_t& size) {
    const auto code =
        ::libssh2_channel_read_ex(channel_, stream == Stream::errors ? SSH_EXTENDED_DATA_STDERR : 0,
                                  reinterpret_cast<char*>(buffer.data()), buffer.size());
    size = code > 0 ? static_cast<std::size_t>(code) : 0;
    return step(code);
}

Step SshSession::write(std::span<const std::byte> bytes, std::size_t& size) {
    const auto code = ::libssh2_channel_write_ex(
        channel_, 0, reinterpret_cast<const char*>(bytes.data()), bytes.size());
    size = code > 0 ? static_cast<std::size_t>(code) : 0;
    return code == 0 ? Step::again : step(code);  // 0: the window is closed
}

Step SshSession::send_end() {
    return step(::libssh2_channel_send_eof(channel_));
}

bool SshSession::has_ended() const {
    return ::libssh2_channel_eof(channel_) == 1;
}

bool SshSession::has_unread() const {
    return ::libssh2_poll_channel_read(channel_, 1) == 1;  // 1: of either stream
}

Step SshSession::close_channel() {
    const auto closed = step(::libssh2_channel_close(channel_));
    return closed == Step::done ? step(::libssh2_channel_wait_closed(channel_)) : closed;
}

std::optional<std::string> SshSession::exit_words() const {
    char* name = nullptr;
    std::size_t size = 0;
    (void)::libssh2_channel_get_exit_signal(channel_, &name, &size, nullptr, nullptr, nullptr,
                                            nullptr);
    if (name != nullptr) {
        auto words = "was killed by SIG" + std::string(name, size);
        ::libssh2_free(session_, name);
        return words;
    }
    if (const int status = ::libssh2_channel_get_exit_status(channel_); status != 0) {
        return "ended with status " + std::to_string(status);
    }
    return std::nullopt;
}

bool SshSession::is_sending() const {
    return (::libssh2_session_block_directions(session_) & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0;
}

std::string SshSession::last_error() const {
    char* text = nullptr;
    const int code = ::libssh2_session_last_error(session_, &text, nullptr, 0);
    return (text == nullptr || *text == '\0' ? "libssh2 gave no reason" : std::string(text)) +
           " (" + std::to_string(code) + ")";
}

int SshSession::last_code() const {
    return ::libssh2_session_last_errno(session_);
}

}  // namespace hvd::launch::ssh

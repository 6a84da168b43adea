// SPDX-License-Identifier: Apache-2.0
//
// libmunge by dlopen, with declarations of our own: a host without munge must still load
// libhorovod.
#include "collectives/rendezvous/tcp/authenticator.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

namespace hvd::coll::store {
namespace {

// From munge.h.
constexpr int kSuccess = 0;
constexpr int kReplayed = 17;
constexpr int kOptionSocket = 8;
constexpr int kOptionUidRestriction = 9;

struct Munge {
    void* (*context_create)() = nullptr;
    void (*context_destroy)(void*) = nullptr;
    int (*context_set)(void*, int, ...) = nullptr;
    const char* (*context_error)(void*) = nullptr;
    int (*encode)(char**, void*, const void*, int) = nullptr;
    int (*decode)(const char*, void*, void**, int*, uid_t*, gid_t*) = nullptr;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

Result<Munge> load() {
    // Never unloaded: it is loaded once, and other parts of the process may use it too.
    void* const library = ::dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
    Munge munge;
    if (library == nullptr || !find_symbol(library, "munge_ctx_create", munge.context_create) ||
        !find_symbol(library, "munge_ctx_destroy", munge.context_destroy) ||
        !find_symbol(library, "munge_ctx_set", munge.context_set) ||
        !find_symbol(library, "munge_ctx_strerror", munge.context_error) ||
        !find_symbol(library, "munge_encode", munge.encode) ||
        !find_symbol(library, "munge_decode", munge.decode)) {
        return Error{Errc::unavailable, "libmunge.so.2 cannot be loaded"};
    }
    return munge;
}

struct Free {
    void operator()(void* memory) const noexcept {
        std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): munge's
    }
};

class MungeAuthenticator final : public Authenticator {
public:
    MungeAuthenticator(const Munge& munge, std::string socket)
        : munge_(munge), socket_(std::move(socket)) {}

    [[nodiscard]] Authentication kind() const noexcept override { return Authentication::munge; }

    [[nodiscard]] Result<std::vector<std::byte>> prove(
        std::span<const std::byte> statement) override {
        const Context context(*this);
        char* text = nullptr;
        const int outcome = munge_.encode(&text, context.get(), statement.data(),
                                          static_cast<int>(statement.size()));
        const std::unique_ptr<char, Free> credential(text);
        if (outcome != kSuccess || text == nullptr) {
            return Error{Errc::unavailable, "munge: " + context.error()};
        }
        const std::string_view replies = text;
        const auto* first = reinterpret_cast<const std::byte*>(replies.data());
        return std::vector<std::byte>(first, first + replies.size());
    }

    [[nodiscard]] Status check(std::span<const std::byte> statement,
                               std::span<const std::byte> proof) override {
        const std::string credential(reinterpret_cast<const char*>(proof.data()), proof.size());
        const Context context(*this);
        void* payload = nullptr;
        int size = 0;
        uid_t uid = std::numeric_limits<uid_t>::max();
        gid_t gid = std::numeric_limits<gid_t>::max();
        const int outcome =
            munge_.decode(credential.c_str(), context.get(), &payload, &size, &uid, &gid);
        const std::unique_ptr<void, Free> memory(payload);
        if (outcome != kSuccess) {
            return Error{outcome == kReplayed ? Errc::invalid_argument : Errc::unavailable,
                         "munge: " + context.error()};
        }
        if (uid != ::geteuid()) {
            return Error{Errc::invalid_argument, "it is of user " + std::to_string(uid) +
                                                     ", not of user " +
                                                     std::to_string(::geteuid())};
        }
        const std::span said(static_cast<const std::byte*>(payload),
                             static_cast<std::size_t>(std::max(size, 0)));
        if (!std::ranges::equal(said, statement)) {
            return Error{Errc::invalid_argument, "its credential is for another connection"};
        }
        return ok();
    }

private:
    class Context {
    public:
        explicit Context(const MungeAuthenticator& authenticator)
            : munge_(authenticator.munge_), context_(munge_.context_create()) {
            if (context_ == nullptr) {
                throw Exception({Errc::unavailable, "munge: no memory"});
            }
            // Only this user can decode the credential.
            (void)munge_.context_set(context_, kOptionUidRestriction, ::geteuid());
            if (!authenticator.socket_.empty()) {
                (void)munge_.context_set(context_, kOptionSocket, authenticator.socket_.c_str());
            }
        }
        ~Context() { munge_.context_destroy(context_); }
        Context(const Context&) = delete;
        Context& operator=(const Context&) = delete;

        [[nodiscard]] void* get() const noexcept { return context_; }
        [[nodiscard]] std::string error() const {
            const char* text = munge_.context_error(context_);
            return text != nullptr ? text : "unknown error";
        }

    private:
        const Munge& munge_;
        void* context_;
    };

    Munge munge_;
    std::string socket_;
};

}  // namespace

Result<std::unique_ptr<Authenticator>> create_munge_authenticator(const std::string& socket) {
    HVD_TRY(const auto munge, load());
    std::unique_ptr<Authenticator> authenticator =
        std::make_unique<MungeAuthenticator>(munge, socket);
    // A daemon that is not there is noticed now, while there is another way.
    HVD_TRY_STATUS(authenticator->prove({}));
    return authenticator;
}

}  // namespace hvd::coll::store

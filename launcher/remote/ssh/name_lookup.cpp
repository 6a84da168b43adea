// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/name_lookup.hpp"

#include "collectives/base/text.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>

namespace hvd::launch::ssh {
namespace {

template <class T>
Address make_address(const T& value, std::string_view text) {
    Address address{.storage = {}, .size = sizeof value, .text = std::string(text)};
    std::memcpy(&address.storage, &value, sizeof value);
    return address;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text, int port) {
    const auto network_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in v4{};
    if (::inet_pton(AF_INET, std::string(text).c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = network_port;
        return make_address(v4, text);
    }
    const auto percent = text.find('%');
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &v6.sin6_addr) != 1) {
        return std::nullopt;
    }
    v6.sin6_family = AF_INET6;
    v6.sin6_port = network_port;
    if (percent != std::string_view::npos) {
        const std::string scope(text.substr(percent + 1));
        v6.sin6_scope_id =
            parse_number<std::uint32_t>(scope).value_or(::if_nametoindex(scope.c_str()));
    }
    return make_address(v6, text);
}

struct NameLookup::Question {
    std::string name;
    int port = 0;
    int family = AF_UNSPEC;
    std::function<void(Found)> done;
    std::mutex mutex;
    IoThread* io = nullptr;  // guarded by mutex; null: nobody waits for the answer any more

    /// Thread: any.
    static void answer(const std::shared_ptr<Question>& question, Found found) {
        const std::lock_guard lock(question->mutex);
        if (question->io == nullptr) {
            return;
        }
        question->io->post([question, answer = std::move(found)] {
            if (question->io != nullptr) {  // which only this thread changes
                question->done(answer);
            }
        });
    }
};

namespace {

using Found = NameLookup::Found;

std::string text_of(const addrinfo& entry) {
    std::array<char, NI_MAXHOST> text{};
    return ::getnameinfo(entry.ai_addr, entry.ai_addrlen, text.data(), text.size(), nullptr, 0,
                         NI_NUMERICHOST) == 0
               ? text.data()
               : "?";
}

Found ask(const std::string& name, int port, int family) {
    addrinfo hints{};
    hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;
    const int failure = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &first);
    const int error = errno;
    if (failure != 0) {
        const std::string why = failure == EAI_SYSTEM ? std::generic_category().message(error)
                                                      : ::gai_strerror(failure);
        return Error{Errc::unavailable, "the name " + name + " does not resolve (" + why +
                                            "); correct it, or add it to /etc/hosts or "
                                            "~/.ssh/config"};
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
    std::vector<Address> addresses;
    for (const auto* entry = first; entry != nullptr; entry = entry->ai_next) {
        Address address{.storage = {}, .size = entry->ai_addrlen, .text = text_of(*entry)};
        std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
        addresses.push_back(std::move(address));
    }
    return addresses;
}

/// Starts a detached thread in which every signal is blocked. Gives errno.
int start_thread(void* (*run)(void*), void* argument) {
    pthread_attr_t attributes;
    sigset_t all;
    ::sigfillset(&all);
    (void)::pthread_attr_init(&attributes);
    (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)::pthread_attr_setsigmask_np(&attributes, &all);
    pthread_t thread{};
    const int error = ::pthread_create(&thread, &attributes, run, argument);
    (void)::pthread_attr_destroy(&attributes);
    return error;
}

}  // namespace

NameLookup::NameLookup(IoThread& io) : question_(std::make_shared<Question>()) {
    question_->io = &io;
}

NameLookup::~NameLookup() {
    const std::lock_guard lock(question_->mutex);
    question_->io = nullptr;
}

void NameLookup::start(const std::string& name,
                       int port,
                       int family,
                       std::function<void(Found)> done) {
    question_->name = name;
    question_->port = port;
    question_->family = family;
    question_->done = std::move(done);
    using Shared = std::shared_ptr<Question>;
    auto shared = std::make_unique<Shared>(question_);
    const int error = start_thread(
        [](void* argument) -> void* {
            const std::unique_ptr<Shared> own(static_cast<Shared*>(argument));
            const auto& question = **own;
            Question::answer(*own, ask(question.name, question.port, question.family));
            return nullptr;
        },
        shared.get());
    if (error != 0) {
        Question::answer(question_, system_error("a thread to resolve " + name, error));
        return;
    }
    (void)shared.release();  // the thread's
}

}  // namespace hvd::launch::ssh

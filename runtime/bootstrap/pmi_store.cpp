// SPDX-License-Identifier: Apache-2.0
//
// PMI-1 as mpiexec.hydra, Intel's mpiexec, Flux and Slurm speak it at the socket PMI_FD: lines of
// "cmd=NAME key=value ...", one answer to each.
#include "collectives/base/text.hpp"
#include "collectives/base/unix_socket.hpp"
#include "collectives/rendezvous/store.hpp"
#include "runtime/bootstrap/key_value_store.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvd::rt {
namespace {

constexpr std::size_t kMaxLine = 64 << 10;
constexpr std::chrono::seconds kFinishLimit{1};

/// The value of `name` in "cmd=x name=value ...".
std::optional<std::string> field(std::string_view line, std::string_view name) {
    for (const auto part : split(line, ' ')) {
        const auto equals = part.find('=');
        if (equals != std::string_view::npos && part.substr(0, equals) == name) {
            return std::string(part.substr(equals + 1));
        }
    }
    return {};
}

/// Whether an MPI library in this process has used, and will end, the conversation.
bool is_mpi_process() {
    const auto initialized =
        reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "MPI_Initialized"));
    int is_so = 0;
    return initialized != nullptr && initialized(&is_so) == 0 && is_so != 0;
}

class PmiStore final : public KeyValueStore {
public:
    explicit PmiStore(int socket) : socket_(socket) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "PMI"; }

    [[nodiscard]] Status begin(Deadline deadline) {
        HVD_TRY(const auto greeting,
                ask("init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
        if (field(greeting, "rc").value_or("0") != "0") {
            return Error{Errc::unavailable, "PMI-1 is not spoken at PMI_FD: " + greeting};
        }
        HVD_TRY(const auto space, ask("get_my_kvsname", "my_kvsname", deadline));
        space_ = field(space, "kvsname").value_or("");
        return space_.empty() ? Status(Error{Errc::unavailable, "PMI: " + space}) : ok();
    }

    [[nodiscard]] Status put(const std::string& key,
                             const std::string& text,
                             Deadline deadline) override {
        HVD_TRY(const auto answer, ask("put kvsname=" + space_ + " key=" + key + " value=" + text,
                                       "put_result", deadline));
        if (field(answer, "rc").value_or("0") != "0") {
            return Error{Errc::unavailable, "PMI: put: " + answer};
        }
        return fence(deadline);
    }

    [[nodiscard]] Result<std::string> get(const std::string& key, Deadline deadline) override {
        HVD_TRY_STATUS(fence(deadline));
        HVD_TRY(const auto answer,
                ask("get kvsname=" + space_ + " key=" + key, "get_result", deadline));
        auto value = field(answer, "value");
        if (field(answer, "rc").value_or("0") != "0" || !value) {
            return Error{Errc::unavailable, "PMI: get: " + answer};
        }
        return std::move(*value);
    }

    void finish() override {
        if (!is_mpi_process()) {
            (void)ask("finalize", "finalize_ack", Deadline::in(kFinishLimit));
        }
    }

private:
    [[nodiscard]] Status fence(Deadline deadline) {
        auto answer = ask("barrier_in", "barrier_out", deadline);
        if (!answer && answer.error().code == Errc::timed_out) {
            return Error{Errc::timed_out, "not all ranks have come to PMI's barrier in time" +
                                              std::string(coll::kMoreTime)};
        }
        return answer ? ok() : Status(std::move(answer).error());
    }

    [[nodiscard]] Result<std::string> ask(const std::string& command,
                                          std::string_view expected,
                                          Deadline deadline) {
        if (is_broken_) {
            return Error{Errc::unavailable, "PMI: the conversation was broken off before"};
        }
        is_broken_ = true;  // until the answer is there
        const auto line = "cmd=" + command + "\n";
        HVD_TRY_STATUS(send_all(socket_, std::as_bytes(std::span(line)), deadline));
        HVD_TRY(auto answer, read_line(deadline));
        is_broken_ = false;
        if (field(answer, "cmd") != expected) {
            return Error{Errc::unavailable, "PMI: \"" + command.substr(0, command.find(' ')) +
                                                "\" was answered by \"" + answer + "\""};
        }
        return answer;
    }

    [[nodiscard]] Result<std::string> read_line(Deadline deadline) {
        while (in_.find('\n') == std::string::npos) {
            HVD_TRY_STATUS(await_socket(socket_, POLLIN, deadline));
            std::array<char, 4096> bytes{};
            const auto size = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (size > 0 && in_.size() < kMaxLine) {
                in_.append(bytes.data(), static_cast<std::size_t>(size));
            } else if (size >= 0 || (errno != EAGAIN && errno != EINTR)) {
                return Error{Errc::unavailable, "PMI: the launcher has closed PMI_FD"};
            }
        }
        const auto end = in_.find('\n');
        auto line = in_.substr(0, end);
        in_.erase(0, end + 1);
        return line;
    }

    int socket_;  // the process's, not ours
    std::string space_;
    std::string in_;
    bool is_broken_ = false;
};

}  // namespace

Result<std::unique_ptr<KeyValueStore>> open_pmi(int socket, Deadline deadline) {
    auto store = std::make_unique<PmiStore>(socket);
    HVD_TRY_STATUS(store->begin(deadline));
    return std::unique_ptr<KeyValueStore>(std::move(store));
}

}  // namespace hvd::rt

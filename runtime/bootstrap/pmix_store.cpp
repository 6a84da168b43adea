// SPDX-License-Identifier: Apache-2.0
//
// PMIx, as mpirun of Open MPI, Slurm's pmix plugin and jsrun offer it, by dlopen and with
// declarations of our own. The library counts its users: an MPI in this process may use it too.
#include "collectives/rendezvous/store.hpp"
#include "runtime/bootstrap/key_value_store.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <dlfcn.h>
#include <poll.h>

namespace hvd::rt {
namespace {

// From pmix_common.h, versions 3 to 5.
constexpr int kSuccess = 0;
constexpr int kNotFound = -46;
constexpr std::uint8_t kGlobal = 3;
constexpr std::uint16_t kString = 3;
constexpr std::uint16_t kUint32 = 14;
constexpr std::uint32_t kAllRanks = 0xffff'fffeU;  // PMIX_RANK_WILDCARD
constexpr const char* kJobSize = "pmix.job.size";

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{200};

struct Process {
    std::array<char, 256> nspace{};
    std::uint32_t rank = 0;
};

struct PmixValue {
    std::uint16_t type = 0;
    union {
        char* string;
        std::uint32_t uint32;
        std::array<std::uint64_t, 8> room;  // more than any version has
    } data{.room = {}};
};

using OnValue = void (*)(int status, PmixValue* value, void* context);

struct Pmix {
    int (*init)(Process*, void*, std::size_t) = nullptr;
    int (*finalize)(const void*, std::size_t) = nullptr;
    int (*put)(std::uint8_t, const char*, PmixValue*) = nullptr;
    int (*commit)() = nullptr;
    int (*get)(const Process*, const char*, const void*, std::size_t, OnValue, void*) = nullptr;
    const char* (*error)(int) = nullptr;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

Result<Pmix> load() {
    // Never unloaded: it has a thread.
    void* const library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    Pmix pmix;
    if (library == nullptr || !find_symbol(library, "PMIx_Init", pmix.init) ||
        !find_symbol(library, "PMIx_Finalize", pmix.finalize) ||
        !find_symbol(library, "PMIx_Put", pmix.put) ||
        !find_symbol(library, "PMIx_Commit", pmix.commit) ||
        !find_symbol(library, "PMIx_Get_nb", pmix.get) ||
        !find_symbol(library, "PMIx_Error_string", pmix.error)) {
        return Error{Errc::unavailable,
                     "the launcher offers PMIx, but libpmix.so.2 cannot be loaded"};
    }
    return pmix;
}

/// One question. Shared by the caller, which may stop waiting, and the library's thread.
struct Answer {
    std::mutex mutex{};
    std::condition_variable changed{};
    std::optional<int> status{};  // guarded by mutex
    std::string text{};           // guarded by mutex
    std::uint32_t number = 0;     // guarded by mutex
};

void on_value(int status, PmixValue* value, void* context) {
    const std::unique_ptr<std::shared_ptr<Answer>> handle(
        static_cast<std::shared_ptr<Answer>*>(context));
    Answer& answer = **handle;
    const std::lock_guard lock(answer.mutex);
    answer.status = status;
    if (status == kSuccess && value != nullptr && value->type == kString &&
        value->data.string != nullptr) {
        answer.text = value->data.string;
    } else if (status == kSuccess && value != nullptr && value->type == kUint32) {
        answer.number = value->data.uint32;
    }
    answer.changed.notify_all();
}

class PmixStore final : public KeyValueStore {
public:
    explicit PmixStore(const Pmix& pmix) : pmix_(pmix) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "PMIx"; }

    [[nodiscard]] std::optional<int> world_size() const override { return world_size_; }

    [[nodiscard]] Status begin(int size) {
        if (const int status = pmix_.init(&self_, nullptr, 0); status != kSuccess) {
            return failed("PMIx_Init", status);
        }
        auto job = self_;
        job.rank = kAllRanks;
        const auto limit = Deadline::in(std::chrono::seconds(5));
        HVD_TRY(const auto answer, ask(job, kJobSize, limit));
        world_size_ = static_cast<int>(answer->number);
        if (size != 0 && world_size_ != size) {
            return Error{Errc::invalid_argument,
                         "the launcher's variables announce " + std::to_string(size) +
                             " ranks, its PMIx server " + std::to_string(world_size_)};
        }
        if (world_size_ < 1) {
            return Error{Errc::unavailable, "the launcher's PMIx server tells no size of the job"};
        }
        return ok();
    }

    [[nodiscard]] Status put(const std::string& key, const std::string& text, Deadline) override {
        auto copy = text;
        PmixValue value;
        value.type = kString;
        value.data.string = copy.data();
        if (const int status = pmix_.put(kGlobal, key.c_str(), &value); status != kSuccess) {
            return failed("PMIx_Put", status);
        }
        const int status = pmix_.commit();
        return status == kSuccess ? ok() : Status(failed("PMIx_Commit", status));
    }

    /// Most servers wait until rank 0 has left it. Others say at once that it is not there, and are
    /// asked again: a fence would tell too, but not which ranks are missing.
    [[nodiscard]] Result<std::string> get(const std::string& key, Deadline deadline) override {
        auto first = self_;
        first.rank = 0;
        for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
            const auto answer = ask(first, key.c_str(), deadline);
            if (answer) {
                return (*answer)->text;
            }
            if (last_status_ != kNotFound || deadline.has_passed()) {
                return answer.error();
            }
            (void)::poll(nullptr, 0, static_cast<int>(pause.count()));
        }
    }

    void finish() override { (void)pmix_.finalize(nullptr, 0); }

private:
    [[nodiscard]] Error failed(std::string_view what, int status) const {
        const char* const text = pmix_.error(status);
        return {Errc::unavailable, std::string(what) + ": " +
                                       (text != nullptr ? text : std::to_string(status).c_str())};
    }

    [[nodiscard]] Result<std::shared_ptr<Answer>> ask(const Process& of,
                                                      const char* key,
                                                      Deadline deadline) {
        auto answer = std::make_shared<Answer>();
        auto handle = std::make_unique<std::shared_ptr<Answer>>(answer);
        const int status = pmix_.get(&of, key, nullptr, 0, on_value, handle.get());
        if (status != kSuccess) {
            return failed("PMIx_Get_nb", status);
        }
        (void)handle.release();  // on_value's
        last_status_ = kSuccess;
        std::unique_lock lock(answer->mutex);
        const auto is_answered = [&] { return answer->status.has_value(); };
        if (deadline.is_never()) {
            answer->changed.wait(lock, is_answered);
        } else if (!answer->changed.wait_until(lock, *deadline.end(), is_answered)) {
            return Error{Errc::timed_out,
                         "rank 0 has not come to PMIx in time" + std::string(coll::kMoreTime)};
        }
        last_status_ = *answer->status;
        if (*answer->status != kSuccess) {
            return failed("PMIx_Get", *answer->status);
        }
        return answer;
    }

    Pmix pmix_;
    Process self_{};
    int world_size_ = 0;
    int last_status_ = kSuccess;  // of a question that was answered
};

}  // namespace

Result<std::unique_ptr<KeyValueStore>> open_pmix(int size) {
    HVD_TRY(const auto pmix, load());
    auto store = std::make_unique<PmixStore>(pmix);
    HVD_TRY_STATUS(store->begin(size));
    return std::unique_ptr<KeyValueStore>(std::move(store));
}

}  // namespace hvd::rt

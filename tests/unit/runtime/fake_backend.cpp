// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_backend.hpp"

#include "collectives/reduce/half.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hvd::test {
namespace {

/// Of floats, and of halves, which are packed; of others nothing.
void multiply(coll::DataType type, const coll::Segment& segment) {
    for (std::size_t index = 0; index < segment.count; ++index) {
        if (type == coll::DataType::f32) {
            float value = 0;
            std::memcpy(&value, segment.in + index * sizeof value, sizeof value);
            value *= 10;
            std::memcpy(segment.out + index * sizeof value, &value, sizeof value);
        } else if (type == coll::DataType::f16) {
            // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the workspace
            auto* const at = const_cast<std::byte*>(segment.in) + index * sizeof(std::uint16_t);
            std::uint16_t half = 0;
            std::memcpy(&half, at, sizeof half);
            half = coll::f32_to_f16(coll::f16_to_f32(half) * 10);
            std::memcpy(at, &half, sizeof half);
        }
    }
}

class FakeWork final : public coll::Work {
public:
    FakeWork(FakeBackendState& backend, FakeCollective& collective, std::optional<Error>& cause)
        : backend_(backend), collective_(collective), cause_(cause) {}
    FakeWork(const FakeWork&) = delete;
    FakeWork& operator=(const FakeWork&) = delete;
    ~FakeWork() override { collective_.is_alive = false; }

    Result<Progress> poll() override {
        if (cause_) {
            return *cause_;
        }
        if (backend_.is_stream) {
            collective_.state = FakeCollective::State::enqueued;
        }
        if (collective_.began < 0 && is_at_work()) {
            collective_.began = backend_.now;
        }
        const bool is_over = backend_.duration != 0 && collective_.began >= 0 &&
                             backend_.now - collective_.began >= backend_.duration;
        ++collective_.polls;
        if (is_over ||
            (backend_.polls_until_done != 0 && collective_.polls >= backend_.polls_until_done)) {
            collective_.state = FakeCollective::State::done;
        }
        switch (collective_.state) {
            case FakeCollective::State::pending: return Progress::pending;
            case FakeCollective::State::enqueued: return Progress::enqueued;
            case FakeCollective::State::failed: return Error{Errc::unavailable, "the cable is cut"};
            case FakeCollective::State::done: break;
        }
        for (const auto& segment : collective_.task.segments) {
            multiply(collective_.task.type, segment);
        }
        return Progress::done;
    }

    coll::SharedEvent event() const override { return collective_.event; }
    std::vector<int> missing() const override { return collective_.missing; }

private:
    /// Whether nothing is ahead of it in the stream.
    [[nodiscard]] bool is_at_work() const {
        return !backend_.is_stream ||
               &*std::ranges::find(backend_.started, true, &FakeCollective::is_alive) ==
                   &collective_;
    }

    FakeBackendState& backend_;
    FakeCollective& collective_;
    std::optional<Error>& cause_;
};

class FakeCommunicator final : public coll::Communicator {
public:
    FakeCommunicator(FakeBackendState& backend, int set)
        : Communicator("fake"), backend_(backend), set_(set), workspace_(backend.workspace_bytes) {}
    FakeCommunicator(const FakeCommunicator&) = delete;
    FakeCommunicator& operator=(const FakeCommunicator&) = delete;
    ~FakeCommunicator() override { backend_.closed.push_back(set_); }

    bool gathers(const coll::Task& /*task*/) const noexcept override { return backend_.gathers; }
    std::optional<std::vector<std::byte>> connection_info() override {
        return backend_.has_info ? std::optional(std::vector<std::byte>(backend_.info_bytes))
                                 : std::nullopt;
    }
    std::span<std::byte> workspace(std::size_t bytes) override {
        return bytes <= workspace_.size() ? std::span(workspace_) : std::span<std::byte>();
    }

private:
    std::unique_ptr<coll::Work> do_start(const coll::Task& task) override {
        if (backend_.start_error) {
            throw Exception(*backend_.start_error);
        }
        backend_.started.push_back({.set = set_, .task = task});
        return std::make_unique<FakeWork>(backend_, backend_.started.back(), cause_);
    }
    void do_abort(const Error& cause) override {
        cause_ = cause;
        backend_.aborts.push_back(cause.message);
    }

    FakeBackendState& backend_;
    int set_;
    std::vector<std::byte> workspace_;
    std::optional<Error> cause_;
};

class FakeBackend final : public coll::Backend {
public:
    explicit FakeBackend(FakeBackendState& state) : state_(state) {}

    std::string_view name() const noexcept override { return "fake"; }
    int score(const coll::Task& task, const coll::ProcessSet& /*set*/) const noexcept override {
        return task.device.kind == state_.device.value_or(task.device.kind) ? 1 : 0;
    }
    std::size_t fusion_bytes() const noexcept override { return state_.fusion_bytes; }
    int max_in_flight() const noexcept override { return state_.max_in_flight; }
    std::unique_ptr<coll::Communicator> open(const coll::ProcessSet& set,
                                             coll::Device device) override {
        if (state_.open_error) {
            throw Exception(*state_.open_error);
        }
        state_.opened.push_back(set.id);
        state_.opened_on.push_back(device);
        return std::make_unique<FakeCommunicator>(state_, set.id);
    }
    void release_idle() noexcept override { ++state_.idle; }

private:
    FakeBackendState& state_;
};

}  // namespace

std::unique_ptr<coll::Backend> make_fake_backend(FakeBackendState& state) {
    return std::make_unique<FakeBackend>(state);
}

coll::Backend* select_first(std::span<const std::unique_ptr<coll::Backend>> backends,
                            const coll::Task& task,
                            const coll::ProcessSet& set) {
    for (const auto& backend : backends) {
        if (backend->score(task, set) > 0) {
            return backend.get();
        }
    }
    return nullptr;
}

rt::Request float_request(const std::string& name,
                          std::span<float> data,
                          int process_set,
                          std::uint64_t group) {
    rt::Request request;
    request.name = name;
    request.process_set = process_set;
    request.group = group;
    request.signature.shape = {static_cast<std::int64_t>(data.size())};
    request.in = reinterpret_cast<const std::byte*>(data.data());
    request.out = reinterpret_cast<std::byte*>(data.data());
    request.has_out = true;
    return request;
}

}  // namespace hvd::test

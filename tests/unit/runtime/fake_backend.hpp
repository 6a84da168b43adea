// SPDX-License-Identifier: Apache-2.0
//
// A backend whose collectives end when a test says so, and as it says.
#pragma once

#include "collectives/backend.hpp"
#include "runtime/execution/executor.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::test {

/// Of a stream that nobody runs.
class FakeEvent final : public coll::DeviceEvent {
public:
    [[nodiscard]] bool is_complete() const override { return true; }
    void hold_back(void* /*stream*/) const override {}
};

/// One collective that has been started.
struct FakeCollective {
    enum class State { pending, enqueued, done, failed };

    int set = 0;
    coll::Task task;
    State state = State::pending;
    std::vector<int> missing{};  // places
    coll::SharedEvent event = std::make_shared<FakeEvent>();
    int polls = 0;
    int began = -1;        // when nothing was ahead of it any more, by FakeBackendState::now
    bool is_alive = true;  // its Work exists
};

/// A test's settings and observations.
struct FakeBackendState {
    /// Which tasks it takes; nothing: all.
    std::optional<coll::Device::Kind> device = coll::Device::Kind::host;
    int max_in_flight = 1;
    bool gathers = true;
    std::size_t workspace_bytes = std::size_t{1} << 20;
    std::size_t fusion_bytes = 1024;
    std::size_t info_bytes = 0;  // that members need of each other before the first collective
    bool has_info = true;        // else it is being made
    std::optional<Error> start_error{};
    std::optional<Error> open_error{};
    /// Polls after which a collective is done; 0: the test says when.
    int polls_until_done = 0;
    /// How long a collective runs, by `now`, which the test lets pass; 0: see above.
    int duration = 0;
    int now = 0;
    bool is_stream = false;  // collectives are enqueued at once, and run one after another

    std::deque<FakeCollective> started{};
    std::vector<int> opened{};  // sets
    std::vector<coll::Device> opened_on{};
    std::vector<int> closed{};          // sets
    std::vector<std::string> aborts{};  // causes, once for each communicator
    int idle = 0;                       // how often its memory was to be given back
};

/// As if all members had put in the same: the result of an element is ten times its input.
[[nodiscard]] std::unique_ptr<coll::Backend> make_fake_backend(FakeBackendState& state);

/// The first that can do the task.
[[nodiscard]] coll::Backend* select_first(std::span<const std::unique_ptr<coll::Backend>> backends,
                                          const coll::Task& task,
                                          const coll::ProcessSet& set);

/// An allreduce of floats, in place.
[[nodiscard]] rt::Request float_request(const std::string& name,
                                        std::span<float> data,
                                        int process_set = 0,
                                        std::uint64_t group = 0);

}  // namespace hvd::test
